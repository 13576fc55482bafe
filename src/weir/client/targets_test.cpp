// Targets, servers and stores are three things: here a server has several targets.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/open_file.h>
#include <weir/client/internal/relayout.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>

namespace weir::client {
namespace {

using internal::Cluster;
using ::testing::ElementsAre;
using weir::testing::IsOk;
using weir::testing::StatusIs;

class TargetsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void make(const std::string& path, const std::vector<std::uint32_t>& targets) {
    const std::string layout = concat("stripe(unit=4K, over=", targets.size(), ")");
    ASSERT_THAT(fs.create(path, *layout::parse(layout), {.exclusive = true, .targets = targets}), IsOk());
    ASSERT_THAT(fs.open(path)->linear()->write(0, bytes), IsOk());
  }
  [[nodiscard]] std::vector<std::byte> contents(const std::string& path) const {
    std::vector<std::byte> back(bytes.size());
    EXPECT_THAT(fs.open(path)->linear()->read(0, back), IsOk());
    return back;
  }
  static std::vector<std::byte> pattern() {
    std::vector<std::byte> all(300'000);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 31 + i / 1000);
    return all;
  }

  // Targets 0 and 2 are on server 1, the others on server 0.
  Cluster cluster{{.store = GetParam(), .servers = 2, .target_servers = {1, 0, 1, 0}}};
  const FileSystem fs = cluster.connect();
  const std::vector<std::byte> bytes = pattern();
};

TEST_P(TargetsTest, SubfilesAreOnTheServersOfTheirTargets) {
  EXPECT_EQ(fs.target_count(), 4u);
  EXPECT_EQ(fs.target_hosts(), std::vector<std::string>(4, FileSystem::this_host()));
  make("/x", {0, 1, 2});
  EXPECT_TRUE(contents("/x") == bytes);
  EXPECT_THAT(fs.open("/x")->targets(), ElementsAre(0, 1, 2));
  const Result<Stat> stat = fs.stat("/x");
  ASSERT_THAT(stat, IsOk());
  EXPECT_EQ(stat->size, static_cast<Offset>(bytes.size()));
  EXPECT_EQ(stat->subfiles[0].address, cluster.addresses()[1].text);
  EXPECT_EQ(stat->subfiles[1].address, cluster.addresses()[0].text);
  EXPECT_EQ(stat->subfiles[2].address, cluster.addresses()[1].text);
  const auto usage = fs.usage();
  ASSERT_THAT(usage, IsOk());
  EXPECT_EQ(usage->at(0).subfiles, 2);
  EXPECT_EQ(usage->at(1).subfiles, 1);
  EXPECT_EQ(usage->at(0).disk, usage->at(2).disk) << "counted once";
  EXPECT_NE(usage->at(0).disk, "");
  EXPECT_TRUE(fs.check()->findings.empty());
}

TEST_P(TargetsTest, RelayoutAndRemovalFindThem) {
  make("/x", {0, 3});
  ASSERT_THAT(fs.relayout("/x", *layout::parse("stripe(unit=1000, over=3)"), {.targets = {2, 1, 0}, .progress = {}}),
              IsOk());
  EXPECT_TRUE(contents("/x") == bytes);
  EXPECT_TRUE(fs.check()->findings.empty());
  EXPECT_EQ(fs.usage()->at(0).subfiles, 2);
  EXPECT_EQ(fs.usage()->at(1).subfiles, 1);
  ASSERT_THAT(fs.remove("/x"), IsOk());
  EXPECT_EQ(fs.usage()->at(0).subfiles, 0);
  EXPECT_EQ(fs.usage()->at(1).subfiles, 0);
}

TEST_P(TargetsTest, AClientWithAnOldTableAsksAgain) {
  make("/x", {0, 3});
  EXPECT_THAT(fs.create("/y", *layout::parse("stripe(unit=4K, over=2)"), {.targets = {4, 0}}),
              StatusIs(ErrorCode::kInvalidArgument));
  cluster.set_targets({1, 0, 1, 0, 0});
  ASSERT_THAT(fs.create("/y", *layout::parse("stripe(unit=4K, over=2)"), {.targets = {4, 0}}), IsOk());
  EXPECT_EQ(fs.target_count(), 5u);
  EXPECT_EQ(fs.stat("/y")->subfiles[0].address, cluster.addresses()[0].text);
  cluster.set_targets({1, 0, 1, 0});
  ASSERT_THAT(fs.relayout("/x", *layout::parse("stripe(unit=1000, over=3)")), IsOk());
  EXPECT_EQ(fs.target_count(), 4u);
  EXPECT_TRUE(contents("/x") == bytes);
}

INSTANTIATE_TEST_SUITE_P(Stores, TargetsTest, ::testing::Values("memory", "disk"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace weir::client
