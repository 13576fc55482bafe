#include <weir/base/poll.h>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/base/descriptor.h>

namespace weir {
namespace {

TEST(PollTest, WaitsForBytesAndForTheEnd) {
  using Clock = std::chrono::steady_clock;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(wait_readable(read_end.get(), start + std::chrono::milliseconds(5)), 0);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(5));
  ASSERT_EQ(::write(write_end.get(), "x", 1), 1);
  EXPECT_EQ(wait_readable(read_end.get(), start), 1);
  char byte = 0;
  ASSERT_EQ(::read(read_end.get(), &byte, 1), 1);
  EXPECT_EQ(wait_readable(read_end.get(), start), 0);
  write_end.reset();
  EXPECT_EQ(wait_readable(read_end.get(), Clock::now() + std::chrono::hours(1)), 1);
}

}  // namespace
}  // namespace weir
