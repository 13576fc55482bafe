#include <weir/base/backoff.h>

#include <gtest/gtest.h>

#include <weir/base/testing/thread_time.h>

namespace weir {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(BackoffTest, SleepsLongerAndLongerButNotForLong) {
  const Backoff backoff(microseconds(100));
  EXPECT_EQ(backoff.sleep_after(microseconds(99)), microseconds(0));
  EXPECT_EQ(backoff.sleep_after(microseconds(100)), microseconds(20));
  EXPECT_EQ(backoff.sleep_after(milliseconds(4)), microseconds(250));
  EXPECT_EQ(backoff.sleep_after(seconds(100)), microseconds(500));
}

// A loop that only yields uses all that it can get.
TEST(BackoffTest, ALongWaitLeavesTheProcessorToOthers) {
  const auto before = internal::thread_time();
  const auto end = Backoff::Clock::now() + milliseconds(500);
  for (Backoff backoff; Backoff::Clock::now() < end;) backoff.pause();
  EXPECT_LT(internal::thread_time() - before, milliseconds(200));
}

}  // namespace
}  // namespace weir
