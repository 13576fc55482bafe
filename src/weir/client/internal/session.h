#pragma once

// A client's end of a file system: who the servers are, one connection to each, and calls under way.
//
// A Caller is for one thread at a time; the session's lock makes it so.  A thread that waits for an answer keeps the
// lock while it sleeps, in short turns, and all threads take turns: the thread that holds the lock lets the answers of
// all come in.  Calls that nobody waits for, since the program computes meanwhile, are driven by a progress thread.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <weir/client/file_system.h>
#include <weir/client/internal/progress_thread.h>
#include <weir/net/net.h>
#include <weir/wire/lifeline.h>
#include <weir/wire/wire.h>

namespace weir::client::internal {

/// A mutex that serves threads in the order in which they came.
class FairMutex {
 public:
  void lock();
  void unlock();

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> serving_{0};
};

/// Memory for messages that are gathered or scattered, used again: fresh memory costs more than the copy.
class BufferPool {
 public:
  static constexpr std::size_t kBytes = std::size_t{4} << 20;

  class Buffer {
   public:
    Buffer() = default;
    Buffer(BufferPool* pool, std::unique_ptr<std::byte[]> memory) : pool_(pool), memory_(std::move(memory)) {}
    Buffer(Buffer&&) noexcept = default;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();
    [[nodiscard]] std::byte* data() const { return memory_.get(); }

   private:
    BufferPool* pool_ = nullptr;  // null: not one of the pool's size
    std::unique_ptr<std::byte[]> memory_;
  };

  Buffer take(std::size_t bytes);

 private:
  static constexpr std::size_t kMostKept = 16;
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
};

/// A call and how it ended.
struct Outgoing {
  std::uint32_t server = 0;
  net::Bytes head;
  std::span<const std::byte> body;
  std::span<std::byte> sink;
  std::optional<Result<net::Reply>> result;
};

/// What only the server itself can tell.
struct ServerSelf {
  std::uint64_t store = 0;  ///< 0: it did not answer.
  std::string host;         ///< As net::Identity has it.
  bool is_memory = false;   ///< The store forgets everything when the server ends.
};

/// True if doing it twice is the same as doing it once.
enum class Repeat { kNever, kSafe };

class Session : public std::enable_shared_from_this<Session> {
 public:
  static Result<std::shared_ptr<Session>> connect(const ConnectOptions& options);
  static Result<std::shared_ptr<Session>> connect(const std::vector<net::Address>& servers, const net::Key& key,
                                                  const ConnectOptions& options);
  ~Session();

  [[nodiscard]] const ConnectOptions& options() const { return options_; }
  [[nodiscard]] std::uint32_t server_count() const { return static_cast<std::uint32_t>(links_.size()); }
  [[nodiscard]] BufferPool& buffers() { return buffers_; }
  /// Whether stores keep what is known of files: as server 0's does, since all servers are started alike.
  [[nodiscard]] bool keeps_about() const { return keeps_about_; }
  [[nodiscard]] std::uint64_t next_number() { return ++numbers_; }

  /// How long to wait for others that move so many bytes.
  [[nodiscard]] net::Deadline deadline(Offset bytes = 0) const;
  [[nodiscard]] std::int64_t timeout_ms() const { return options_.timeout.count(); }

  /// One call to its end; reconnects if the server was gone and, if that is safe, asks again.
  template <typename Answer, typename Operation>
  Result<Answer> call(std::uint32_t server, Operation operation, Repeat repeat = Repeat::kSafe,
                      std::uint64_t store = 0) {
    Outgoing outgoing{server, wire::encode_request(std::move(operation), timeout_ms(), store), {}, {}, {}};
    run({&outgoing, 1}, repeat);
    return answer<Answer>(outgoing);
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

  /// Starts a call, with the session's patience.  `done` runs with the session locked, in any thread, perhaps before
  /// this returns.  `generation`, if not 0: the connection must still be that one, else it is kUnavailable.
  void start(std::uint32_t server, std::uint64_t generation, net::Call call);
  /// Lets answers come in until `is_ready`, which is asked with the session locked.
  void run_until(const std::function<bool()>& is_ready);
  /// Lets in what is there.
  void progress();
  /// Calls are under way that nobody may wait for soon: they go on all the same.
  void keep_going() { progress_thread_.wake(); }
  /// Runs `work` with the session locked.
  void locked(const std::function<void()>& work);

  /// Another number for every connection made to the server; 0 before the first.
  [[nodiscard]] std::uint64_t generation(std::uint32_t server) const;
  /// Whether there is a connection that is not known to be broken.
  [[nodiscard]] bool is_connected(std::uint32_t server);
  /// What each server says of itself; nothing of those that did not answer.  Asks those that it does not know, and has
  /// not tried in vain, yet.
  std::vector<ServerSelf> servers();
  /// Of it, the stores; 0: not known.
  std::vector<std::uint64_t> stores();
  /// Connects if there is no connection.  \returns its generation
  Result<std::uint64_t> reach(std::uint32_t server);
  /// The server's lifeline, mapped once for all who come with a descriptor of it.  A server whose lifeline has ended is
  /// connected to again.
  /// \error kIoError
  Result<std::shared_ptr<wire::Lifeline>> lifeline(std::uint32_t server, int descriptor);
  /// Whether memory of servers may be opened without their help, as far as is known.
  [[nodiscard]] bool opens_memory() const { return opens_memory_.load(std::memory_order_relaxed); }
  void stop_opening_memory() { opens_memory_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] std::string name_of(std::uint32_t server) const;
  [[nodiscard]] const net::Address& address_of(std::uint32_t server) const { return links_[server]->address; }

 private:
  struct Link {
    net::Address address;
    std::unique_ptr<net::Connection> connection;
    std::atomic<std::uint64_t> generation{0};
    std::shared_ptr<wire::Lifeline> lifeline;  // null: memory of the server is not used
    std::optional<ServerSelf> self;            // of the connection there is now; nothing: not asked yet
  };

  Session(ConnectOptions options, net::Key key, std::unique_ptr<net::Caller> caller);
  void set_servers(const std::vector<net::Address>& servers);
  Result<net::Connection*> connected(std::uint32_t server);  // locked
  ServerSelf ask_self(std::uint32_t server);
  void run_once(std::span<Outgoing*> calls);
  [[nodiscard]] Status unexpected(std::uint32_t server, const wire::ReplyHeadT& head) const;
  bool look_after_calls(const std::stop_token& stop);

  ConnectOptions options_;
  net::Key key_;
  std::atomic<std::uint64_t> numbers_{0};
  std::atomic<bool> opens_memory_{true};
  bool keeps_about_ = false;  // set when it connects
  BufferPool buffers_;
  FairMutex mutex_;
  std::unique_ptr<net::Caller> caller_;
  std::vector<std::unique_ptr<Link>> links_;  // by the number of the server; connections end before the caller
  // With the session locked:
  std::size_t under_way_ = 0;        // calls
  std::uint64_t visits_ = 0;         // how often somebody has let answers in
  std::uint64_t visits_looked_ = 0;  // when the progress thread last looked
  ProgressThread progress_thread_{[this](const std::stop_token& stop) { return look_after_calls(stop); }};
};

}  // namespace weir::client::internal
