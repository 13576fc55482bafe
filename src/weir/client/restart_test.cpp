// A server is started again while files are open: what may be lost is said to be, and nothing else.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/unsynced.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using internal::Unsynced;
using ::testing::AllOf;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

using Bytes = std::vector<std::byte>;

Bytes numbered_bytes(std::size_t size, unsigned salt) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + salt) >> 11);
  return bytes;
}

layout::Partition stripes() { return *layout::parse("stripe(unit=64K, over=3)"); }

constexpr std::size_t kRestartSize = std::size_t{3} << 20;

class RestartTest : public ::testing::TestWithParam<bool> {
 protected:
  static ClusterOptions on(const char* store) {
    ClusterOptions options;
    options.store = store;
    options.direct = GetParam();
    return options;
  }
  static void restart(Cluster& cluster, int server) {
    cluster.stop(server);
    cluster.start(server);
  }
};

TEST_P(RestartTest, SyncTellsOnceThatBytesMayBeLost) {
  Cluster cluster(on("disk"));
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", stripes(), {.targets = {0, 1, 2}});
  const View view = *file.linear();
  const Bytes bytes = numbered_bytes(kRestartSize, 1);
  ASSERT_THAT(view.write(0, bytes), IsOk());
  restart(cluster, 1);
  EXPECT_THAT(file.sync(), StatusIs(ErrorCode::kIoError, AllOf(HasSubstr("server 1"), HasSubstr("/file"))));
  EXPECT_THAT(file.sync(), IsOk()) << "nothing was written since";
  ASSERT_THAT(view.write(0, bytes), IsOk());
  EXPECT_THAT(file.sync(), IsOk());
}

TEST_P(RestartTest, WhatWasSyncedIsNotSaidToBeLost) {
  Cluster cluster(on("disk"));
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", stripes(), {.targets = {0, 1, 2}});
  const View view = *file.linear();
  const Bytes bytes = numbered_bytes(kRestartSize, 2);
  ASSERT_THAT(view.write(0, bytes), IsOk());
  ASSERT_THAT(file.sync(), IsOk());
  restart(cluster, 1);
  EXPECT_THAT(file.sync(), IsOk());
  EXPECT_THAT(file.close(), IsOk());
  Bytes back(bytes.size());
  ASSERT_THAT(view.read(0, back), IsOk());
  EXPECT_TRUE(back == bytes);
}

TEST_P(RestartTest, EveryKindOfChangeIsRemembered) {
  Cluster cluster(on("disk"));
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", stripes(), {.targets = {0, 1, 2}});
  const View view = *file.linear();
  const Bytes few = numbered_bytes(100, 3);
  const auto expect_lost = [&](const char* what) {
    SCOPED_TRACE(what);
    restart(cluster, 1);
    EXPECT_THAT(file.sync(), StatusIs(ErrorCode::kIoError, HasSubstr("server 1")));
    EXPECT_THAT(file.sync(), IsOk());
  };
  ASSERT_THAT(view.write(65536, few), IsOk());
  expect_lost("few bytes");
  const std::vector<WritePart> parts{{65536, few}, {65536 + 1000, few}};
  ASSERT_THAT(view.write(parts), IsOk());
  expect_lost("several parts");
  ASSERT_THAT(file.truncate(65536 + 50), IsOk());
  expect_lost("truncate");
  ASSERT_THAT(view.start_write(65536, few).wait(), IsOk());
  expect_lost("asynchronous write");
}

TEST_P(RestartTest, CloseTellsToo) {
  Cluster cluster(on("disk"));
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", stripes(), {.targets = {0, 1, 2}});
  ASSERT_THAT(file.linear()->write(0, numbered_bytes(kRestartSize, 4)), IsOk());
  EXPECT_THAT(file.close(), IsOk()) << "nothing happened";
  ASSERT_THAT(file.linear()->write(0, numbered_bytes(kRestartSize, 5)), IsOk());
  restart(cluster, 2);
  EXPECT_THAT(file.close(), StatusIs(ErrorCode::kIoError, AllOf(HasSubstr("server 2"), HasSubstr("/file"))));
}

// In either way: what was copied to memory that is shared counts as well.
TEST_P(RestartTest, CloseTellsOfBytesThatWereInMemory) {
  Cluster cluster(on("memory"));
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", stripes(), {.targets = {0, 1, 2}});
  const View view = *file.linear();
  ASSERT_THAT(view.write(0, numbered_bytes(kRestartSize, 4)), IsOk());
  EXPECT_THAT(file.close(), IsOk());
  ASSERT_THAT(view.write(65536, numbered_bytes(1000, 5)), IsOk());
  EXPECT_EQ(view.report().direct_bytes > 0, GetParam());
  restart(cluster, 1);
  EXPECT_THAT(file.close(), StatusIs(ErrorCode::kIoError, AllOf(HasSubstr("server 1"), HasSubstr("/file"))));
}

// A memory store that was started again is empty: its bytes are gone, not zero.
TEST_P(RestartTest, BytesThatWereInMemoryAreNotReadAsZeros) {
  Cluster cluster(on("memory"));
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", stripes(), {.targets = {0, 1, 2}});
  const View view = *file.linear();
  const Bytes bytes = numbered_bytes(kRestartSize, 6);
  ASSERT_THAT(view.write(0, bytes), IsOk());
  ASSERT_THAT(file.sync(), IsOk());
  restart(cluster, 1);
  const auto is_lost = StatusIs(ErrorCode::kIoError, AllOf(HasSubstr("server 1"), HasSubstr("lost")));
  Bytes back(bytes.size());
  EXPECT_THAT(view.read(0, back), is_lost);
  EXPECT_THAT(view.write(0, bytes), is_lost);
  EXPECT_THAT(file.sync(), is_lost);
  EXPECT_THAT(file.size(), is_lost);
  EXPECT_THAT(file.truncate(7), is_lost);
  EXPECT_THAT(fs.stat("/file"), is_lost);
  const FileSystem other = cluster.connect();
  EXPECT_THAT(other.open("/file")->linear()->read(0, back), is_lost) << "a client that comes later";
  Bytes first(1000);
  EXPECT_THAT(view.read(0, first), IsOk()) << "those are on server 0";

  EXPECT_THAT(fs.remove("/file"), IsOk());
  const File again = *fs.create("/file", stripes(), {.targets = {0, 1, 2}});
  ASSERT_THAT(again.linear()->write(0, bytes), IsOk());
  ASSERT_THAT(again.linear()->read(0, back), IsOk());
  EXPECT_TRUE(back == bytes);
}

TEST_P(RestartTest, FilesAreMadeWhileAServerIsDown) {
  ClusterOptions options = on("memory");
  options.timeout = std::chrono::milliseconds(2000);
  Cluster cluster(options);
  cluster.stop(2);
  const FileSystem fs = cluster.connect();
  const auto file = fs.create("/file", stripes(), {.targets = {0, 1, 2}});
  ASSERT_THAT(file, IsOk());
  Bytes few = numbered_bytes(1000, 7);
  EXPECT_THAT(file->linear()->write(0, few), IsOk());
  EXPECT_THAT(file->linear()->write(2 * 65536, few), StatusIs(ErrorCode::kUnavailable));
  cluster.start(2);
  EXPECT_THAT(file->linear()->write(2 * 65536, few), IsOk()) << "it was not known which store it would be";
}

INSTANTIATE_TEST_SUITE_P(Ways, RestartTest, ::testing::Bool(),
                         [](const auto& each) { return std::string(each.param ? "Direct" : "ByMessage"); });

TEST(UnsyncedTest, RemembersTheFirstLifeAndWhetherThereWereOthers) {
  Unsynced unsynced(3);
  unsynced.note(1, 7);
  unsynced.note(1, 7);
  unsynced.note(2, 8);
  unsynced.note(2, 9);
  unsynced.note(99, 1);  // no such server
  EXPECT_EQ(unsynced.take(), (std::vector<std::uint64_t>{0, 7, Unsynced::kSeveral}));
  EXPECT_EQ(unsynced.take(), (std::vector<std::uint64_t>{0, 0, 0}));
  unsynced.note(1, 5);
  unsynced.put_back({0, 5, 8});
  EXPECT_EQ(unsynced.take(), (std::vector<std::uint64_t>{0, 5, 8}));
}

}  // namespace
}  // namespace weir::client
