#pragma once

// Looks after calls that were started and that nobody waits for just now: while the program computes, bodies must go on
// their way and answers come in.  Otherwise calls end by their deadline, and others wait for the subfiles that half a
// write is under way to.
//
// One thread, started when it is first needed.

#include <functional>
#include <memory>
#include <mutex>

#include <weir/runtime/runtime.h>

namespace weir::client::internal {

/// \threadsafety Safe from any thread.
class ProgressThread {
 public:
  /// What is done at every look.  \returns whether it must look again later; soon after stop() it has to return
  using Look = std::function<bool()>;
  enum class When {
    kLater,  ///< After a pause: programs that test or wait do without it.
    kNow,
  };

  ProgressThread(const runtime::Runtime& runtime, Look look) : runtime_(runtime), look_(std::move(look)) {}
  ~ProgressThread() { stop(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// There are calls to look after.  \returns false if there is no thread to do it
  bool wake(When when);
  /// Waits until it does not look any more.
  void stop();

 private:
  void run();

  const runtime::Runtime runtime_;
  const Look look_;
  const std::unique_ptr<runtime::Event> changed_ = runtime_.executor->make_event();
  std::mutex mutex_;  // guards what follows
  bool is_wanted_ = false;
  bool is_urgent_ = false;
  bool is_stopping_ = false;
  bool is_made_ = false;  // or could not be
  std::unique_ptr<runtime::Thread> thread_;
};

}  // namespace weir::client::internal
