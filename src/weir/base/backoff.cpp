#include <weir/base/backoff.h>

#include <sched.h>

#include <algorithm>
#include <ctime>

namespace weir {

namespace {

constexpr std::uint32_t kLooks = 16;
constexpr std::chrono::nanoseconds kShortest = std::chrono::microseconds(20);
constexpr std::chrono::nanoseconds kLongest = std::chrono::microseconds(500);
/// Of the time waited so far: what sleeping too long can cost.
constexpr int kPart = 16;

}  // namespace

std::chrono::nanoseconds Backoff::sleep_after(std::chrono::nanoseconds waited) const noexcept {
  if (waited < awake_) return std::chrono::nanoseconds::zero();
  return std::clamp(waited / kPart, kShortest, kLongest);
}

void Backoff::pause() noexcept {
  if (++looks_ <= kLooks) return;
  const Clock::time_point now = Clock::now();
  if (looks_ == kLooks + 1) start_ = now;
  const std::chrono::nanoseconds waited = now - start_;
  const std::chrono::nanoseconds time = sleep_after(waited);
  if (time == time.zero()) {
    if (waited >= kSpin) ::sched_yield();
    return;
  }
  const timespec span{0, time.count()};  // below a second
  ::nanosleep(&span, nullptr);           // woken early: looks earlier
}

}  // namespace weir
