// Quotas, end to end: what is counted, what is refused, what restarts forget.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/session.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>
#include <weir/wire/wire.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

constexpr Offset kUnit = 4096;
constexpr Offset kMany = Offset{1} << 40;

std::uint32_t me() { return ::geteuid(); }

ClusterOptions with(const std::string& store, bool direct, const std::string& transport = "local") {
  ClusterOptions options;
  options.store = store;
  options.direct = direct;
  options.transport = transport;
  return options;
}

layout::Partition striped_over_three() { return *layout::parse("stripe(unit=4K, over=3)"); }

Quota of_me(const FileSystem& fs) {
  const Result<Quotas> quotas = fs.quotas();
  EXPECT_THAT(quotas, IsOk());
  return quotas.is_ok() && !quotas->users.empty() ? quotas->users[0] : Quota{};
}

Status fill_file(const FileSystem& fs, const std::string& path, Offset from, Offset bytes) {
  WEIR_TRY(const File file, fs.create(path, striped_over_three()));
  WEIR_TRY(const View view, file.linear());
  return view.write(from, std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{7}));
}

/// What subfiles are long, as their servers say.
Offset lengths_of(const FileSystem& fs, const std::set<std::string>& paths) {
  Offset sum = 0;
  for (const std::string& path : paths) {
    const Result<Stat> stat = fs.stat(path);
    EXPECT_THAT(stat, IsOk());
    if (!stat.is_ok()) continue;
    for (const Stat::Subfile& subfile : stat->subfiles) sum += (subfile.length + kUnit - 1) / kUnit * kUnit;
  }
  return sum;
}

void wait_for_use(const FileSystem& fs, Offset bytes) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (of_me(fs).used_bytes != bytes && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
  EXPECT_EQ(of_me(fs).used_bytes, bytes);
}

TEST(QuotaTest, NothingIsCountedUntilSomebodyHasALimit) {
  const Cluster cluster(with("memory", false));
  const FileSystem fs = cluster.connect();
  ASSERT_THAT(fill_file(fs, "/a", 0, 100'000), IsOk());
  EXPECT_FALSE(fs.quotas()->is_active);
  ASSERT_THAT(fs.set_quota(me(), {.bytes = kMany}), IsOk());
  EXPECT_TRUE(fs.quotas()->is_active);
  EXPECT_EQ(of_me(fs).used_bytes, lengths_of(fs, {"/a"})) << "what was there before counts";
  EXPECT_EQ(of_me(fs).used_files, 1);
  EXPECT_EQ(of_me(fs).limits.bytes, kMany);
  EXPECT_EQ(of_me(fs).limits.files, std::nullopt);
  ASSERT_THAT(fs.clear_quota(me()), IsOk());
  EXPECT_FALSE(fs.quotas()->is_active);
  EXPECT_THAT(fill_file(fs, "/a", 0, 200'000), IsOk());
}

TEST(QuotaTest, FilesBeyondTheLimitAreRefused) {
  const Cluster cluster(with("memory", false));
  const FileSystem fs = cluster.connect();
  ASSERT_THAT(fs.set_quota(me(), {.files = 3}), IsOk());
  ASSERT_THAT(fs.make_directory("/d"), IsOk());
  ASSERT_THAT(fs.create("/d/a", striped_over_three()), IsOk());
  ASSERT_THAT(fs.create("/d/b", striped_over_three()), IsOk());
  EXPECT_THAT(fs.create("/d/c", striped_over_three()),
              StatusIs(ErrorCode::kQuota, AllOf(HasSubstr(concat("user ", me(), " may have 3 files")),
                                                HasSubstr("has 3"), HasSubstr("`weir quota`"), HasSubstr("/d/c"))));
  EXPECT_THAT(fs.make_directory("/d/e"), StatusIs(ErrorCode::kQuota));
  EXPECT_THAT(fs.rename("/d/a", "/d/b"), IsOk()) << "it replaces one";
  EXPECT_EQ(of_me(fs).used_files, 2);
  EXPECT_THAT(fs.create("/d/c", striped_over_three()), IsOk());
  ASSERT_THAT(fs.set_quota(me(), {.files = -1}), IsOk());
  EXPECT_THAT(fs.create("/d/f", striped_over_three()), IsOk());
}

TEST(QuotaTest, BytesBeyondTheLimitAreRefused) {
  const Cluster cluster(with("memory", false));
  const FileSystem fs = cluster.connect();
  ASSERT_THAT(fs.set_quota(me(), {.bytes = 30 * kUnit}), IsOk());
  ASSERT_THAT(fill_file(fs, "/a", 0, 30 * kUnit), IsOk());
  EXPECT_EQ(of_me(fs).used_bytes, 30 * kUnit);
  EXPECT_THAT(fill_file(fs, "/a", 30 * kUnit, 1),
              StatusIs(ErrorCode::kQuota,
                       AllOf(HasSubstr(concat("may have ", 30 * kUnit, " bytes")), HasSubstr("`weir quota`"))));
  EXPECT_THAT(fill_file(fs, "/b", 0, 1), StatusIs(ErrorCode::kQuota));
  EXPECT_THAT(fill_file(fs, "/a", 0, 30 * kUnit), IsOk()) << "it has these";
  EXPECT_EQ(of_me(fs).used_bytes, 30 * kUnit);
  EXPECT_THAT(fs.open("/a")->truncate(1'000'000), StatusIs(ErrorCode::kQuota));
  ASSERT_THAT(fs.open("/a")->truncate(15 * kUnit), IsOk());
  EXPECT_THAT(fill_file(fs, "/b", 0, 3 * kUnit), IsOk());
  ASSERT_THAT(fs.remove("/a"), IsOk());
  EXPECT_EQ(of_me(fs).used_bytes, lengths_of(fs, {"/b"}));
  EXPECT_THAT(fill_file(fs, "/b", 0, 30 * kUnit), IsOk());
}

// Leases are larger than what they are for; what one file does not need, another one gets.
TEST(QuotaTest, WhatIsLeasedInVainIsGivenBack) {
  const Cluster cluster(with("memory", false));
  const FileSystem fs = cluster.connect();
  constexpr Offset kMostUnits = 300;
  ASSERT_THAT(fs.set_quota(me(), {.bytes = kMostUnits * kUnit}), IsOk());
  for (Offset unit = 0; unit < kMostUnits / 2; ++unit)
    ASSERT_THAT(fill_file(fs, "/a", unit * kUnit, kUnit), IsOk()) << unit;
  for (Offset unit = 0; unit < kMostUnits / 2; ++unit)
    ASSERT_THAT(fill_file(fs, "/b", unit * kUnit, kUnit), IsOk()) << unit;
  EXPECT_EQ(of_me(fs).used_bytes, kMostUnits * kUnit);
  EXPECT_THAT(fill_file(fs, "/c", 0, 1), StatusIs(ErrorCode::kQuota));
}

TEST(QuotaTest, MappedMemoryGrowsWithinTheLimit) {
  const Cluster cluster(with("memory", true, "tcp"));
  const FileSystem fs = cluster.connect();
  constexpr Offset kChunk = Offset{1} << 20;
  ASSERT_THAT(fs.set_quota(me(), {.bytes = 10 * kChunk}), IsOk());
  const layout::Partition one = *layout::parse("stripe(unit=4K, over=1)");
  const File file = *fs.create("/a", one, {.targets = {0}});
  const View view = *file.linear();
  const std::vector<std::byte> bytes(static_cast<std::size_t>(kChunk), std::byte{3});
  Offset written = 0;
  Status status;
  while (status.is_ok() && written < 20) {
    status = view.write(written * kChunk, bytes);
    if (status.is_ok()) ++written;
  }
  EXPECT_THAT(status, StatusIs(ErrorCode::kQuota));
  EXPECT_EQ(written, 10);
  EXPECT_GT(view.report().direct_bytes, 0) << "else this tests nothing";
  EXPECT_EQ(of_me(fs).used_bytes, 10 * kChunk);
}

TEST(QuotaTest, RootGivesFilesAwayWithTheirBytes) {
  if (me() != 0) GTEST_SKIP() << "only root gives files away";
  constexpr std::uint32_t kOtherUser = 71002;
  const Cluster cluster(with("memory", false));
  const FileSystem fs = cluster.connect();
  ASSERT_THAT(fs.set_quota({}, {.bytes = 2 * kUnit}), IsOk());
  ASSERT_THAT(fill_file(fs, "/a", 0, 3 * kUnit), IsOk()) << "the limits of everybody are not for root";
  ASSERT_THAT(fs.set_owner("/a", kOtherUser, 100), IsOk());
  const Quotas all = *fs.quotas(true);
  ASSERT_EQ(all.users.size(), 1u);
  EXPECT_EQ(all.users[0].user, kOtherUser);
  EXPECT_EQ(all.users[0].used_bytes, 3 * kUnit);
  EXPECT_EQ(all.users[0].used_files, 1);
  EXPECT_FALSE(all.users[0].has_own_limits);
  EXPECT_EQ(all.users[0].limits.bytes, 2 * kUnit);
  EXPECT_THAT(fill_file(fs, "/a", 3 * kUnit, 1), StatusIs(ErrorCode::kQuota)) << "it is Tom's, whoever writes";
}

TEST(QuotaTest, ARelayoutNeedsRoomForBoth) {
  const Cluster cluster(with("memory", false));
  const FileSystem fs = cluster.connect();
  const layout::Partition other = *layout::parse("stripe(unit=8K, over=2)");
  ASSERT_THAT(fs.set_quota(me(), {.bytes = 50 * kUnit}), IsOk());
  ASSERT_THAT(fill_file(fs, "/a", 0, 30 * kUnit), IsOk());
  EXPECT_THAT(fs.relayout("/a", other), StatusIs(ErrorCode::kQuota));
  wait_for_use(fs, 30 * kUnit);
  ASSERT_THAT(fs.set_quota(me(), {.bytes = 60 * kUnit}), IsOk());
  EXPECT_THAT(fs.relayout("/a", other), IsOk());
  wait_for_use(fs, 30 * kUnit);
}

TEST(QuotaTest, ServersThatStartAgainCountAgain) {
  Cluster cluster(with("disk", false));
  {
    const FileSystem fs = cluster.connect();
    ASSERT_THAT(fs.set_quota(me(), {.bytes = 40 * kUnit, .files = 5}), IsOk());
    ASSERT_THAT(fill_file(fs, "/a", 0, 30 * kUnit), IsOk());
    ASSERT_THAT(fs.open("/a")->sync(), IsOk());
  }
  for (const int server : {1, 0, 2}) {
    SCOPED_TRACE(server);
    cluster.stop(server);
    cluster.start(server);
    const FileSystem fs = cluster.connect();
    wait_for_use(fs, 30 * kUnit);
    EXPECT_EQ(of_me(fs).used_files, 1);
    EXPECT_EQ(of_me(fs).limits.files, 5);
    EXPECT_THAT(fill_file(fs, "/a", 30 * kUnit, 11 * kUnit), StatusIs(ErrorCode::kQuota));
    ASSERT_THAT(fs.open("/a")->truncate(30 * kUnit), IsOk());
    wait_for_use(fs, 30 * kUnit);
  }
}

TEST(QuotaTest, OnlyServersTalkAboutSpace) {
  const Cluster cluster(with("memory", false));
  const auto session = *internal::Session::connect(cluster.addresses(), cluster.key(), {});
  const FileSystem fs = cluster.connect();
  ASSERT_THAT(fs.set_quota(me(), {.bytes = 1}), IsOk());
  wire::LeaseSpaceT lease;
  lease.held = {{1, 0, 1U << 30}};
  EXPECT_THAT(session->call<wire::SpaceLeasesT>(0, lease), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(session->call<wire::HeldSpacesT>(1, wire::MeterSpaceT{}), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(fill_file(fs, "/a", 0, kUnit), StatusIs(ErrorCode::kQuota));
}

/// Random calls, and what they leave, by the lengths that servers tell.
class QuotaModelTest : public ::testing::TestWithParam<const char*> {};

TEST_P(QuotaModelTest, UseIsWhatThereIs) {
  const std::uint64_t seed = weir::testing::choose_seed();
  SCOPED_TRACE(concat("WEIR_TEST_SEED=", seed));
  std::mt19937_64 random(seed);
  const auto below = [&](Offset bound) { return static_cast<Offset>(random() % static_cast<std::uint64_t>(bound)); };
  const Cluster cluster(with(GetParam(), false));
  const FileSystem fs = cluster.connect();
  constexpr Offset kLimit = 150 * kUnit;
  constexpr Offset kMostFiles = 5;
  ASSERT_THAT(fs.set_quota(me(), {.bytes = kLimit, .files = kMostFiles}), IsOk());
  std::set<std::string> files;
  int refused = 0;
  for (int step = 0; step < 150; ++step) {
    SCOPED_TRACE(step);
    const std::string path = concat("/f", below(7));
    const bool is_there = files.contains(path);
    Status status;
    switch (below(6)) {
      case 0: status = is_there ? fs.remove(path) : Status::ok(); break;
      case 1: status = is_there ? fs.open(path)->truncate(below(80 * kUnit)) : Status::ok(); break;
      case 2:
        status = is_there ? fs.relayout(path, *layout::parse(concat("stripe(unit=", 1 + below(9), "K, over=3)")))
                          : Status::ok();
        break;
      case 3: {
        const std::string to = concat("/f", below(7));
        status = is_there ? fs.rename(path, to) : Status::ok();
        if (is_there && status.is_ok()) files.erase(path), files.insert(to);
        break;
      }
      default: status = fill_file(fs, path, below(40 * kUnit), 1 + below(40 * kUnit)); break;
    }
    if (!status.is_ok()) {
      ASSERT_THAT(status, StatusIs(ErrorCode::kQuota));
      ++refused;
    }
    for (int i = 0; i < 7; ++i) {
      const std::string name = concat("/f", i);
      fs.stat(name).is_ok() ? (void)files.insert(name) : (void)files.erase(name);
    }
    const Quota use = of_me(fs);
    ASSERT_EQ(use.used_files, std::ssize(files));
    ASSERT_LE(use.used_files, kMostFiles);
    ASSERT_LE(use.used_bytes, kLimit);
    ASSERT_LE(lengths_of(fs, files), use.used_bytes);
    // A write over several servers that one of them refuses has made the others grow, and is still charged.
    if (status.is_ok() && refused == 0) wait_for_use(fs, lengths_of(fs, files));
  }
  EXPECT_GT(refused, 0) << "else the limits tested nothing";
  for (const std::string& path : files) ASSERT_THAT(fs.remove(path), IsOk());
  wait_for_use(fs, 0);
  EXPECT_EQ(of_me(fs).used_files, 0);
}

INSTANTIATE_TEST_SUITE_P(Stores, QuotaModelTest, ::testing::Values("memory", "disk"));

}  // namespace
}  // namespace weir::client
