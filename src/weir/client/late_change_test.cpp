// What happens to a file while a client copies bytes straight to its memory: the change comes in the middle of the
// copy.

#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/cluster.h>
#include <weir/client/internal/trap_buffer.h>
#include <weir/layout/language.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::TrapBuffer;
using weir::testing::IsOk;

class LateChangeTest : public ::testing::Test {
 protected:
  LateChangeTest() : cluster({.timeout = std::chrono::milliseconds(5000)}) {}

  /// Writes the buffer to the file, which has other bytes, while `change` happens.
  Status write_during(const std::function<void()>& change) {
    const std::vector<std::byte> old(TrapBuffer::kBytes, std::byte{1});
    const View view = *fs.create("/file", *layout::parse("stripe(unit=1M, over=1)"), {.targets = {1}})->linear();
    EXPECT_THAT(view.write(0, old), IsOk());
    EXPECT_GT(view.report().direct_bytes, 0) << "not the way that is to be tested";
    const TrapBuffer buffer;
    std::thread changing([&] {
      EXPECT_TRUE(TrapBuffer::await_access());
      change();
      TrapBuffer::release();
    });
    Status status = view.write(0, buffer.bytes());
    changing.join();
    return status;
  }

  Cluster cluster;
  const FileSystem fs = cluster.connect();
  const FileSystem other = cluster.connect();
};

TEST_F(LateChangeTest, BytesThatAreTooLateForACopyAreWrittenToTheNewLayout) {
  const Status status = write_during([&] {
    // All bytes have been copied when the writer goes on.
    RelayoutOptions options;
    options.progress = [](Offset done, Offset all) {
      if (done == all) TrapBuffer::release();
    };
    EXPECT_THAT(other.relayout("/file", *layout::parse("stripe(unit=4K, over=2)"), options), IsOk());
  });
  EXPECT_THAT(status, IsOk());
  std::vector<std::byte> back(TrapBuffer::kBytes);
  ASSERT_THAT(other.open("/file")->linear()->read(0, back), IsOk());
  EXPECT_TRUE(back == std::vector<std::byte>(TrapBuffer::kBytes, std::byte{2}));
}

TEST_F(LateChangeTest, BytesForAServerThatIsGoneAreNotWritten) {
  EXPECT_FALSE(write_during([&] { cluster.stop(1); }).is_ok());
}

TEST_F(LateChangeTest, BytesForAFileThatWasRemovedAreNotWritten) {
  EXPECT_THAT(write_during([&] { EXPECT_THAT(other.remove("/file"), IsOk()); }),
              weir::testing::StatusIs(ErrorCode::kStale));
}

}  // namespace
}  // namespace weir::client
