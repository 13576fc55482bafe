// Files in mapped memory: their size is known, and synced bytes are, without asking the servers; loss is told
// nevertheless.

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

constexpr std::size_t kThreeMiB = std::size_t{3} << 20;

layout::Partition three_stripes() { return *layout::parse("stripe(unit=64K, over=3)"); }

std::int64_t count_requests(const FileSystem& fs) {
  std::int64_t sum = 0;
  for (const ServerStatus& server : fs.server_status()) sum += server.requests;
  return sum;
}

TEST(MemorySyncTest, SyncAndSizeAskNoServer) {
  Cluster cluster(ClusterOptions{});
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", three_stripes());
  const View view = *file.linear();
  const std::vector<std::byte> bytes(kThreeMiB, std::byte{7});
  ASSERT_THAT(view.write(0, bytes), IsOk());
  ASSERT_THAT(file.sync(), IsOk());
  EXPECT_TRUE(file.is_in_memory_here());
  const std::int64_t first = count_requests(fs);
  const std::int64_t asking = count_requests(fs) - first;  // costs requests itself
  const std::int64_t before = count_requests(fs);
  for (int i = 0; i < 10; ++i) {
    ASSERT_THAT(view.write(100, std::span(bytes).first(1000)), IsOk());
    EXPECT_TRUE(file.has_unsynced());
    EXPECT_THAT(file.sync(), IsOk());
    EXPECT_FALSE(file.has_unsynced());
    EXPECT_EQ(*file.size(), static_cast<Offset>(kThreeMiB));
  }
  EXPECT_EQ(count_requests(fs) - before, asking);
}

TEST(MemorySyncTest, SizeFollowsWhatOthersDo) {
  Cluster cluster(ClusterOptions{});
  const FileSystem fs = cluster.connect();
  const FileSystem other = cluster.connect();
  const File file = *fs.create("/file", three_stripes());
  const std::vector<std::byte> bytes(kThreeMiB, std::byte{7});
  ASSERT_THAT(file.linear()->write(0, bytes), IsOk());
  const File same = *other.open("/file");
  for (const Offset size : {Offset{5}, Offset{5000000}, Offset{0}, Offset{70000}}) {
    ASSERT_THAT(same.truncate(size), IsOk());
    EXPECT_EQ(*file.size(), size);
  }
  ASSERT_THAT(same.linear()->write(99999, std::span(bytes).first(1)), IsOk());
  EXPECT_EQ(*file.size(), 100000);
  ASSERT_THAT(other.relayout("/file", *layout::parse("stripe(unit=4K, over=2)")), IsOk());
  EXPECT_EQ(*file.size(), 100000);
  ASSERT_THAT(same.refresh(), IsOk());
  EXPECT_EQ(layout::print(same.layout()), "stripe(unit=4K, over=2)");
  ASSERT_THAT(other.remove("/file"), IsOk());
  EXPECT_THAT(file.size(), StatusIs(ErrorCode::kStale));
  EXPECT_THAT(file.refresh(), StatusIs(ErrorCode::kStale));
}

TEST(MemorySyncTest, LossIsToldWithAllServers) {
  Cluster cluster(ClusterOptions{.store = "disk"});
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", three_stripes(), {.targets = {0, 1, 2}});
  ASSERT_THAT(file.linear()->write(0, std::vector<std::byte>(kThreeMiB)), IsOk());
  for (const int server : {1, 2}) {
    cluster.stop(server);
    cluster.start(server);
  }
  EXPECT_THAT(file.sync(),
              StatusIs(ErrorCode::kIoError, AllOf(HasSubstr("server 1"), HasSubstr("server 2"), HasSubstr("/file"))));
}

TEST(MemorySyncTest, LossOfMappedMemoryIsTold) {
  for (const bool is_started_again : {false, true}) {
    Cluster cluster(ClusterOptions{.timeout = std::chrono::milliseconds(2000)});
    const FileSystem fs = cluster.connect();
    const File file = *fs.create("/file", three_stripes(), {.targets = {0, 1, 2}});
    ASSERT_THAT(file.linear()->write(0, std::vector<std::byte>(kThreeMiB)), IsOk());
    cluster.stop(1);
    if (is_started_again) cluster.start(1);
    const Status status = file.sync();
    ASSERT_FALSE(status.is_ok());
    EXPECT_THAT(status.message(), HasSubstr("server 1"));
  }
}

TEST(MemorySyncTest, DisksAreNotMemory) {
  Cluster cluster(ClusterOptions{.store = "disk"});
  const FileSystem fs = cluster.connect();
  EXPECT_FALSE(fs.create("/file", three_stripes())->is_in_memory_here());
  Cluster by_message(ClusterOptions{.direct = false});
  EXPECT_FALSE(by_message.connect().create("/file", three_stripes())->is_in_memory_here());
}

}  // namespace
}  // namespace weir::client
