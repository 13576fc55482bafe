#pragma once

// A client's end of a file system: who the servers are, one connection to each, and calls under way.
//
// A Caller is for one thread at a time.  The thread that uses it is the driver:
//
//   start()   without a driver, the thread that calls it is the driver for as long as sending takes; otherwise it leaves
//             the call in the inbox, and wakes the driver if that sleeps
//   wait()    without a driver, the thread drives until it has what it waits for, and lets in the answers of all; then
//             another thread that waits takes over.  With one, it sleeps on an Event of its own
//
// Calls that nobody waits for, since the program computes or wants a callback, are driven by the progress thread, which
// gives way to threads that wait.
//
// The mutex guards a few members for a few instructions.  Nothing waits, sleeps, connects or calls back with it locked.

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <weir/base/buffer_pool.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/capability.h>
#include <weir/client/internal/progress_thread.h>
#include <weir/net/net.h>
#include <weir/share/lifeline.h>
#include <weir/wire/wire.h>

namespace weir::client::internal {

/// Memory for messages that are gathered or scattered, of at most kBytes each.
struct BufferPool : weir::BufferPool {
  static constexpr std::size_t kBytes = std::size_t{4} << 20;
  BufferPool() : weir::BufferPool(16 * kBytes) {}
};

/// A call and how it ended.
struct Outgoing {
  std::uint32_t server = 0;
  net::Bytes head;
  std::span<const std::byte> body;
  std::span<std::byte> sink;
  std::optional<Result<net::Reply>> result;
  Capability* capability = nullptr;  ///< Presented before the call, if need be; stays until the call has ended.
};

/// Where a target is, and what only its server can tell.
struct TargetSelf {
  std::uint32_t server = 0;
  std::uint64_t store = 0;  ///< 0: the server did not answer.
  std::string host;         ///< As net::Identity has it.
  bool is_memory = false;   ///< The store forgets everything when the server ends.
};

/// True if doing it twice is the same as doing it once.
enum class Repeat { kNever, kSafe };

/// What one thread waits for and another tells, by a Session.
class Signal {
 private:
  friend class Session;
  bool is_set_ = false;
  runtime::Event* sleeper_ = nullptr;
};

/// Work that the progress thread does whenever something has happened to an operation.
struct Watcher {
  std::function<void()> advance;  ///< May wait.
  bool is_queued = false;         ///< With the session locked.
};

/// A call to start.
struct Start {
  std::uint32_t server = 0;
  net::Call call;  ///< Gets the session's deadline and patience.  `done` runs in the driver: it must not wait.
  std::uint64_t generation = 0;  ///< If not 0: the connection must still be that one, else it is kUnavailable.
  /// A call to make first on the same connection, if it is one that needs it; asked by the driver.
  std::function<std::optional<net::Call>(std::uint64_t generation)> prelude{};
  Capability* capability = nullptr;  ///< As Outgoing has it.
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  static Result<std::shared_ptr<Session>> connect(const ConnectOptions& options);
  static Result<std::shared_ptr<Session>> connect(const std::vector<net::Address>& servers, const net::Key& key,
                                                  const ConnectOptions& options);
  ~Session();

  [[nodiscard]] const ConnectOptions& options() const { return options_; }
  [[nodiscard]] const model::Io& costs() const { return *options_.costs; }
  [[nodiscard]] std::uint32_t server_count() const { return static_cast<std::uint32_t>(links_.size()); }
  [[nodiscard]] std::uint32_t target_count() const { return static_cast<std::uint32_t>(table()->servers.size()); }
  /// The server that has a target; an index that no server has if the target is not in the table.
  [[nodiscard]] std::uint32_t server_of(std::uint32_t target) const {
    const auto now = table();
    return target < now->servers.size() ? now->servers[target] : UINT32_MAX;
  }
  /// Of the table of targets.
  [[nodiscard]] std::uint64_t epoch() const { return table()->epoch; }
  [[nodiscard]] BufferPool& buffers() { return buffers_; }
  /// Whether stores keep what is known of files: as server 0's does, since all servers are started alike.
  [[nodiscard]] bool keeps_about() const { return keeps_about_; }
  [[nodiscard]] std::uint64_t next_number() { return ++numbers_; }

  /// How long to wait for others that move so many bytes.
  [[nodiscard]] net::Deadline deadline(Offset bytes = 0) const;
  [[nodiscard]] std::int64_t timeout_ms() const { return options_.timeout.count(); }

  /// One call to its end; reconnects if the server was gone and, if that is safe, asks again.
  template <typename Answer, typename Operation>
  Result<Answer> call(std::uint32_t server, Operation operation, Repeat repeat = Repeat::kSafe, std::uint64_t store = 0,
                      Capability* capability = nullptr) {
    Outgoing outgoing{server, wire::encode_request(std::move(operation), timeout_ms(), store), {}, {}, {}, capability};
    run({&outgoing, 1}, repeat);
    return answer<Answer>(outgoing);
  }

  /// A call to server 0 that names targets, as `make()` says: once more if the table of targets has changed since it was
  /// asked for.
  template <typename Answer, typename Make>
  Result<Answer> call_by_table(Make make, Repeat repeat) {
    for (int attempt = 1;; ++attempt) {
      const std::uint64_t before = epoch();
      Outgoing outgoing{0, wire::encode_request(make(), timeout_ms(), 0, before), {}, {}, {}};
      run({&outgoing, 1}, repeat);
      Result<Answer> result = answer<Answer>(outgoing);
      if (result.status().code() != ErrorCode::kStale || attempt > 1) return result;
      WEIR_RETURN_IF_ERROR(refresh_table());
      if (epoch() == before) return result;
    }
  }

  /// All of them at once; each has its result then.
  void run(std::span<Outgoing> calls, Repeat repeat);
  /// The same for calls whose answer is just that it is done.  \returns the first error
  Status run_all(std::span<Outgoing> calls, Repeat repeat = Repeat::kSafe);

  /// The answer of the type expected, or the error that came instead: names the server.
  template <typename Answer>
  Result<Answer> answer(const Outgoing& outgoing) const {
    WEIR_TRY(wire::ReplyHeadT head, decode(outgoing.server, *outgoing.result));
    if (head.answer.type != wire::AnswerUnionTraits<Answer>::enum_value) return unexpected(outgoing.server, head);
    return std::move(*static_cast<Answer*>(head.answer.value));
  }
  Result<wire::ReplyHeadT> decode(std::uint32_t server, const Result<net::Reply>& reply) const;

  // ---- for transfers that have many calls under way and look at them one by one

  /// Starts a call; never waits.  `done` runs in any thread, perhaps before this returns.
  void start(Start start);
  /// Until it is told; resets it.
  void wait(Signal& signal);
  /// Runs `update` with the session locked; if that returns true, tells the thread that waits for the signal.
  template <typename Update>
  void tell(Signal& signal, Update update) {
    Lock lock(mutex_);
    if (update()) set(lock, signal);
    const bool has_work = !work_.empty();
    lock.unlock();  // from now on the signal may be gone
    if (has_work) progress_thread_.wake(ProgressThread::When::kNow);
  }
  /// Takes in replies that have arrived, unless another thread is doing so.
  void progress();
  /// Calls are under way that nobody may wait for soon: they go on all the same.
  void keep_going() { progress_thread_.wake(ProgressThread::When::kLater); }
  /// Runs `work`, which takes a few instructions, with the session locked.
  template <typename Work>
  void locked(Work work) {
    const std::lock_guard lock(mutex_);
    work();
  }

  /// From now until unwatch() the progress thread drives calls whenever no other thread does, and does the watcher's
  /// work.  \returns false if there is no such thread
  bool watch(Watcher& watcher);
  /// With the session locked.
  void unwatch() { --watched_; }
  /// Its work is to be done.  With the session locked, from within tell().
  void queue(Watcher& watcher) {
    if (!std::exchange(watcher.is_queued, true)) work_.push_back(&watcher);
  }

  /// Another number for every connection made to the server; 0 before the first.
  [[nodiscard]] std::uint64_t generation(std::uint32_t server) const;
  /// Whether there is a connection that is not known to be broken.
  [[nodiscard]] bool is_connected(std::uint32_t server);
  /// What servers say of their targets; nothing of those that did not answer.  Asks those that it does not know yet and
  /// has not failed to reach.
  std::vector<TargetSelf> targets();
  /// Of it, the stores; 0: not known.
  std::vector<std::uint64_t> stores();
  /// The server's lifeline, mapped once for all who come with a descriptor of it.  A server whose lifeline has ended is
  /// connected to again.
  /// \error kIoError
  Result<std::shared_ptr<share::Lifeline>> lifeline(std::uint32_t server, int descriptor);
  /// Whether memory of servers may be opened without their help, as far as is known.
  [[nodiscard]] bool opens_memory() const { return opens_memory_.load(std::memory_order_relaxed); }
  void stop_opening_memory() { opens_memory_.store(false, std::memory_order_relaxed); }
  /// A server said that its shared memory has checksums.
  [[nodiscard]] bool has_verified_memory() const { return has_verified_memory_.load(std::memory_order_relaxed); }
  void note_verified_memory() { has_verified_memory_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] std::string name_of(std::uint32_t server) const;
  [[nodiscard]] const net::Address& address_of(std::uint32_t server) const { return links_[server]->address; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  /// Which server has which target.
  struct TargetTable {
    std::uint64_t epoch = 0;             // 0: nobody was asked
    std::vector<std::uint32_t> servers;  // by target
  };
  /// What a server says of itself.
  struct ServerSelf {
    bool has_answered = false;
    std::map<std::uint32_t, TargetSelf> targets;
  };
  struct Link {
    net::Address address;
    std::unique_ptr<net::Connection> connection;  // the driver's
    std::atomic<std::uint64_t> generation{0};     // changed by the driver
    // With the session locked:
    std::shared_ptr<share::Lifeline> lifeline;  // null: memory of the server is not used
    std::optional<ServerSelf> self;             // nothing: not asked yet
    std::uint64_t self_generation = 0;          // of the connection that it was asked by
  };
  /// A thread in wait() while another one drives.
  struct Sleeper {
    const Signal* signal;
    std::unique_ptr<runtime::Event> event;
    bool drives = false;  // is the driver from now on
  };

  Session(ConnectOptions options, const net::Key& key, std::unique_ptr<net::Caller> caller);
  void set_servers(const std::vector<net::Address>& servers);
  [[nodiscard]] std::shared_ptr<const TargetTable> table() const {
    const std::lock_guard lock(table_mutex_);
    return table_;
  }
  Status set_table(const wire::MembersT& members);
  /// \error kUnavailable if servers are others, or elsewhere, by now
  Status refresh_table();
  ServerSelf ask_self(std::uint32_t server);
  void run_once(std::span<Outgoing*> calls);
  [[nodiscard]] Status unexpected(std::uint32_t server, const wire::ReplyHeadT& head) const;
  bool look_after_calls();

  // ---- the driver's
  /// Connects if there is no connection.
  net::Connection& connected(std::uint32_t server);
  void begin(Start start);

  // ---- becoming and being the driver; those with a lock need it locked, and return so
  /// Runs it in the driver, and waits for its end.
  void run_in_driver(const std::function<void()>& task);
  void leave_to_driver(Lock& lock, std::function<void()> task);
  void wake_driver(Lock& lock);
  void set(Lock& lock, Signal& signal);
  /// Until the signal is set, or this thread is the driver.  \returns the latter
  bool sleep(Lock& lock, Signal& signal);
  template <typename IsOver>
  void drive(Lock& lock, IsOver is_over);
  void do_work(Lock& lock);
  void run_inbox(Lock& lock);
  /// Another thread that waits is the driver now, or none.
  void stop_driving(Lock& lock);

  ConnectOptions options_;
  net::Key key_;
  std::atomic<std::uint64_t> numbers_{0};
  std::atomic<bool> opens_memory_{true};
  std::atomic<bool> has_verified_memory_{false};
  bool keeps_about_ = false;  // set when it connects
  BufferPool buffers_;
  mutable std::mutex table_mutex_;
  std::shared_ptr<const TargetTable> table_ = std::make_shared<TargetTable>();
  std::unique_ptr<net::Caller> caller_;       // the driver's, but for wake()
  std::vector<std::unique_ptr<Link>> links_;  // by the number of the server; connections end before the caller

  std::mutex mutex_;  // guards what follows
  bool is_driven_ = false;
  bool is_asleep_ = false;                    // the driver, and no other thread has woken it yet
  bool gives_way_ = false;                    // the driver, to threads that wait
  bool is_ending_ = false;                    // the session
  std::vector<std::function<void()>> inbox_;  // for the driver
  std::deque<Sleeper*> sleepers_;             // in the order in which they came
  std::vector<std::unique_ptr<runtime::Event>> spare_events_;
  std::deque<Watcher*> work_;        // for the progress thread
  std::size_t watched_ = 0;          // operations that have watchers
  std::size_t under_way_ = 0;        // calls
  std::uint64_t visits_ = 0;         // how often a thread has let answers in, or waited
  std::uint64_t visits_looked_ = 0;  // when the progress thread last looked

  ProgressThread progress_thread_;
};

}  // namespace weir::client::internal
