#pragma once

// Looks after calls that were started and that nobody waits for just now: while the program computes, bodies must go on
// their way and answers come in.  Otherwise calls end by their deadline, and others wait for the subfiles that half a
// write is under way to.
//
// One thread, made when it is first needed.  It looks every few milliseconds as long as there are such calls, and
// sleeps otherwise.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace weir::client::internal {

/// \threadsafety Safe from any thread.
class ProgressThread {
 public:
  /// What is done at every look.  \returns whether it must look again; soon after `stop` it has to return
  using Look = std::function<bool(const std::stop_token& stop)>;

  explicit ProgressThread(Look look) : look_(std::move(look)) {}
  ~ProgressThread() { stop(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// There are calls to look after.  Costs next to nothing if that is known.
  void wake();
  /// Waits until it does not look any more.
  void stop();

 private:
  void run(const std::stop_token& stop);
  void make_thread();  // with the mutex held

  Look look_;
  std::atomic<bool> is_wanted_{false};
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_made_ = false;  // or could not be
  std::jthread thread_;
};

}  // namespace weir::client::internal
