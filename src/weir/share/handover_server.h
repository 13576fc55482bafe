#pragma once

// The server's end of handover.h.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <weir/base/descriptor.h>
#include <weir/base/result.h>
#include <weir/runtime/runtime.h>
#include <weir/share/life.h>

namespace weir::share {

/// \threadsafety offer() is safe from any thread.
class HandoverServer {
 public:
  using Token = std::vector<std::uint8_t>;
  static constexpr std::size_t kTokenBytes = 32;
  /// Offers that nobody has fetched: the oldest goes when there are more.
  static constexpr std::size_t kMostOffers = 1024;

  /// Opens a socket of a random name and serves it in a thread of its own.  \error kIoError
  static Result<std::unique_ptr<HandoverServer>> start(const runtime::Runtime& with = runtime::system_runtime(),
                                                       runtime::Duration lifetime = std::chrono::seconds(30));
  ~HandoverServer();

  [[nodiscard]] const std::string& socket() const noexcept { return name_; }

  /// Keeps a duplicate of `descriptor` until the user `uid` fetches it for the token returned.  Read-only unless
  /// `for_writing`.
  Result<Token> offer(int descriptor, bool for_writing, uid_t uid);

  /// For those who open it themselves.
  [[nodiscard]] int lifeline() const noexcept { return life_->descriptor(); }

  /// No more offers are served, and the lifeline of those who came for one ends.
  void stop();

 private:
  struct Offer {
    Token token;
    Descriptor descriptor;
    uid_t uid = 0;
    runtime::TimePoint expires;
  };

  /// Has connected, and not said for what it comes.
  struct Visitor {
    Descriptor connection;
    runtime::TimePoint expires;
  };

  explicit HandoverServer(const runtime::Runtime& with) : runtime_(with) {}
  [[nodiscard]] runtime::TimePoint now() const { return runtime_.clock->now(); }
  void run();
  void serve(int connection);
  Descriptor take(const std::uint8_t* token, uid_t uid);
  void wake() const;
  void expire(runtime::TimePoint time);
  bool accept();
  /// \param accept_again  not before then are connections accepted
  int poll_timeout_ms(runtime::TimePoint accept_again);

  runtime::Runtime runtime_;
  std::string name_;
  runtime::Duration lifetime_{};
  Descriptor listener_;
  Descriptor wake_;             // an eventfd: look at stopping_ and offers_ again
  std::unique_ptr<Life> life_;  // lasts as long as the thread
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::deque<Visitor> visitors_;  // of the thread; oldest first
  std::list<Offer> offers_;       // guarded by mutex_; oldest first
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace weir::share
