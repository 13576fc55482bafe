#pragma once

// For tests only; not installed.

#include <sys/time.h>

#include <atomic>
#include <csignal>

namespace weir::testing {

/// As long as it lives, a timer of this process sends it a signal again and again, which interrupts system calls.  One
/// at a time.
class SignalStorm {
 public:
  explicit SignalStorm(int every_us = 300) {
    come_ = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { ++come_; };  // no SA_RESTART
    sigaction(SIGALRM, &action, &before_);
    const itimerval timer{{0, every_us}, {0, every_us}};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;
  ~SignalStorm() {
    const itimerval none{};
    setitimer(ITIMER_REAL, &none, nullptr);
    sigaction(SIGALRM, &before_, nullptr);
  }

  /// Signals so far.
  [[nodiscard]] int come() const { return come_; }

 private:
  static inline std::atomic<int> come_ = 0;  // in whatever thread
  struct sigaction before_ {};
};

}  // namespace weir::testing
