#include <weir/base/scheduling.h>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace weir {

namespace {

using Clock = std::chrono::steady_clock;

/// Time slices have 3 ms; those that answer each other's messages are done sooner.
constexpr std::chrono::milliseconds kMostOfASlice{1};
/// So that finding out costs a few hundredths of the time at most.
constexpr std::chrono::milliseconds kRest{100};
/// The least that Linux allows.
constexpr std::uint64_t kShortSlice = 100'000;  // ns

std::atomic<Clock::rep> crowded_until{Clock::time_point::min().time_since_epoch().count()};

// As sched_setattr(2) has it; the C library has none.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

bool is_crowded_at(Clock::time_point now) noexcept {
  return now.time_since_epoch().count() < crowded_until.load(std::memory_order_relaxed);
}

}  // namespace

bool is_crowded() noexcept { return is_crowded_at(Clock::now()); }

void note_absence(std::chrono::nanoseconds time) noexcept {
  if (time < kMostOfASlice) return;
  crowded_until.store((Clock::now() + kRest).time_since_epoch().count(), std::memory_order_relaxed);
}

bool yield_if_cheap() noexcept {
  const Clock::time_point start = Clock::now();
  if (is_crowded_at(start)) return false;
  ::sched_yield();
  note_absence(Clock::now() - start);
  return true;
}

void sleep_shortly(std::chrono::nanoseconds time) noexcept {
  // Linux adds 50 us if it may, to wake up for several timers at once.
  const int slack = ::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  if (slack > 1) ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  const timespec span{0, time.count()};
  ::nanosleep(&span, nullptr);
  if (slack > 1) ::prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
}

void ask_for_short_slices() noexcept {
  SchedulingAttributes now;
  if (::syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) != 0 || now.policy != SCHED_OTHER) return;
  now.runtime = kShortSlice;
  (void)::syscall(SYS_sched_setattr, 0, &now, 0);
}

}  // namespace weir
