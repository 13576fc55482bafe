#pragma once

#include <weir/runtime/runtime.h>

namespace weir::pario::internal {

/// Adds the time of its scope to a sum.
class Stopwatch {
 public:
  /// Null: does nothing.
  Stopwatch(const runtime::Clock* clock, std::chrono::nanoseconds& sum) : clock_(clock), sum_(sum) {
    if (clock_ != nullptr) start_ = clock_->now();
  }
  ~Stopwatch() {
    if (clock_ != nullptr) sum_ += clock_->now() - start_;
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const runtime::Clock* const clock_;
  std::chrono::nanoseconds& sum_;
  runtime::TimePoint start_{};
};

}  // namespace weir::pario::internal
