#include <weir/model/calibrate_io.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/testing/temporary_directory.h>

namespace weir::model {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

Effort one_round() { return {std::chrono::steady_clock::now(), 1}; }

TEST(CalibrateIoTest, MemoryCostsSomething) {
  Memory memory;
  ASSERT_THAT(calibrate_memory(describe_machine(), one_round(), memory), IsOk());
  EXPECT_GT(memory.fault_byte_seconds, 0);
  EXPECT_GT(memory.enter_seconds, 0);
  EXPECT_GT(memory.gather_byte_seconds, 0);
  EXPECT_GT(memory.compose_seconds, 0);
  EXPECT_NE(memory.gather_byte_seconds, Memory{}.gather_byte_seconds);
  EXPECT_NE(memory.compose_seconds, Memory{}.compose_seconds);
  EXPECT_GE(memory.window_bytes, Offset{64} << 10);
  EXPECT_LE(memory.window_bytes, Offset{4} << 20);
}

TEST(CalibrateIoTest, DisksCostSomethingAndStayClean) {
  const testing::TemporaryDirectory folder;
  const auto disk = calibrate_disk(folder.path(), one_round());
  ASSERT_THAT(disk, IsOk());
  EXPECT_GT(disk->read_byte_seconds, 0);
  EXPECT_GT(disk->write_byte_seconds, 0);
  EXPECT_GT(disk->change_byte_seconds, disk->read_byte_seconds);
  EXPECT_GE(disk->position_seconds, 0);
  EXPECT_GT(disk->sync_seconds, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THAT(calibrate_disk("/nonexistent/folder", one_round()),
              StatusIs(ErrorCode::kNotFound, HasSubstr("/nonexistent/folder")));
}

TEST(CalibrateIoTest, MediansNeedOneRoundAtLeast) {
  int runs = 0;
  const auto count = [&]() -> Result<double> { return static_cast<double>(++runs); };
  EXPECT_EQ(median_seconds({std::chrono::steady_clock::now(), 5}, count).value(), 1);
  runs = 0;
  const auto later = std::chrono::steady_clock::now() + std::chrono::hours(1);
  EXPECT_EQ(median_seconds({later, 5}, count).value(), 3);
  EXPECT_EQ(runs, 5);
  EXPECT_THAT(median_seconds({later, 5},
                             []() -> Result<double> {
                               return Status{ErrorCode::kIoError, "no"};
                             }),
              StatusIs(ErrorCode::kIoError));
}

}  // namespace
}  // namespace weir::model
