#pragma once

// For tests of what happens hours later.

#include <atomic>
#include <chrono>
#include <cstdint>

#include <weir/runtime/runtime.h>

namespace weir::testing {

/// The machine's clock, but for the time of day, which the test sets.
class SetClock final : public runtime::Clock {
 public:
  [[nodiscard]] runtime::TimePoint now() const noexcept override { return runtime::system_runtime().clock->now(); }
  [[nodiscard]] std::int64_t wall_ns() const noexcept override { return wall_; }
  void advance(std::chrono::nanoseconds by) { wall_ += by.count(); }

 private:
  std::atomic<std::int64_t> wall_{std::int64_t{1'800'000'000} * 1'000'000'000};
};

}  // namespace weir::testing
