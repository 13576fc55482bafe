#include <weir/base/scheduling.h>

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

namespace weir {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SchedulingTest, WhoWasKeptFromRunningYieldsNoMoreForAWhile) {
  note_absence(milliseconds(5));
  const Clock::time_point start = Clock::now();
  EXPECT_TRUE(is_crowded() || Clock::now() - start > milliseconds(50));
  EXPECT_TRUE(!yield_if_cheap() || Clock::now() - start > milliseconds(50));
  while (is_crowded() && Clock::now() < start + seconds(10)) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_FALSE(is_crowded());
}

TEST(SchedulingTest, ShortAbsencesCountForNothing) {
  const Clock::time_point start = Clock::now();
  while (is_crowded() && Clock::now() < start + seconds(10)) std::this_thread::sleep_for(milliseconds(5));
  note_absence(microseconds(200));
  EXPECT_FALSE(is_crowded());
}

TEST(SchedulingTest, AShortSleepLeavesTheTimersOfTheThreadAsTheyWere) {
  std::thread([] {
    ASSERT_EQ(::prctl(PR_SET_TIMERSLACK, 70000, 0, 0, 0), 0);
    const Clock::time_point start = Clock::now();
    sleep_shortly(microseconds(30));
    EXPECT_GE(Clock::now() - start, microseconds(30));
    EXPECT_EQ(::prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 70000);
  }).join();
}

// As sched_getattr(2) has it: size, policy, flags, nice, priority, and from byte 24 on the slice.
std::uint64_t slice_of_this_thread() {
  std::array<std::uint64_t, 7> attributes{};
  if (::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0) != 0) return 0;
  return attributes[3];
}

TEST(SchedulingTest, AThreadHasShortSlicesWhereLinuxKnowsThem) {
  std::thread([] {
    const std::uint64_t before = slice_of_this_thread();
    ask_for_short_slices();
    if (before == 0) GTEST_SKIP() << "this Linux tells nothing of slices";
    EXPECT_LT(slice_of_this_thread(), before);
  }).join();
}

}  // namespace
}  // namespace weir
