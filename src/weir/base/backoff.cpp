#include <weir/base/backoff.h>

#include <algorithm>

#include <weir/base/scheduling.h>

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
  if (looks_ == kLooks + 1) start_ = last_ = now;
  if (awake_ <= kMessages) note_absence(now - last_);  // looks that move no bytes take no time
  last_ = now;
  const std::chrono::nanoseconds waited = now - start_;
  if (waited < kSpin) return;
  const std::chrono::nanoseconds time = sleep_after(waited);
  if (time > time.zero() || !yield_if_cheap()) sleep_shortly(std::max(time, kShortest));
  last_ = Clock::now();
}

}  // namespace weir
