// What users may have, as server 0 counts it: files with each change of names, leases of servers.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/server/internal/quotas.h>
#include <weir/server/internal/testing.h>

namespace weir::server::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::IsOkAndHolds;
using testing::StatusIs;

constexpr UserId kAnn = 2001;
constexpr UserId kBill = 2002;
constexpr UserId kServersUser = 1000;

struct QuotasTest : ::testing::Test {
  void SetUp() override { open(); }
  void open() {
    metadata = std::move(Metadata::open(*store, {.uid = kServersUser, .gid = 100, .now_ns = {}}).value());
    metadata->set_target_count(2);
  }
  [[nodiscard]] Quotas& quotas() const { return metadata->quotas(); }
  void open_root_to_all() {
    wire::SetAttributesT change;
    change.path = "/";
    change.set_mode = true;
    change.mode = 0777;
    ASSERT_THAT(metadata->set_attributes(change, user(0)), IsOk());
  }
  Result<wire::AttributesT> create(const std::string& path, UserId owner) {
    return metadata->create(create_request(path), user(owner));
  }
  Status give(const std::string& path, UserId owner) {
    wire::SetAttributesT change;
    change.path = path;
    change.set_owner = true;
    change.uid = owner;
    change.gid = 100;
    return metadata->set_attributes(change, user(0)).status();
  }

  std::unique_ptr<storage::KeyValue> store = storage::make_memory_key_value();
  std::unique_ptr<Metadata> metadata;
};

TEST_F(QuotasTest, LimitsOutliveTheProcess) {
  ASSERT_THAT(quotas().set_limits(kAnn, QuotaLimits{.bytes = 5, .files = {}}), IsOk());
  ASSERT_THAT(quotas().set_limits(kEverybody, QuotaLimits{.bytes = {}, .files = 7}), IsOk());
  open();
  EXPECT_EQ(quotas().limits_of(kAnn), (QuotaLimits{.bytes = 5, .files = {}}));
  EXPECT_EQ(quotas().limits_of(kBill), (QuotaLimits{.bytes = {}, .files = 7}));
  EXPECT_EQ(quotas().limits_of(0), QuotaLimits{}) << "what is for everybody is not for root";
  EXPECT_EQ(quotas().limits_of(kServersUser), QuotaLimits{});
  ASSERT_THAT(quotas().set_limits(kAnn, {}), IsOk());
  ASSERT_THAT(quotas().set_limits(kEverybody, {}), IsOk());
  EXPECT_FALSE(quotas().is_active());
  open();
  EXPECT_FALSE(quotas().is_active());
}

TEST_F(QuotasTest, DamagedLimitsAreFound) {
  storage::Batch batch;
  batch.put(concat("q", encode_number(kAnn)), "short");
  ASSERT_THAT(store->apply(batch, false), IsOk());
  EXPECT_THAT(Metadata::open(*store, {.uid = kServersUser, .gid = 100, .now_ns = {}}), StatusIs(ErrorCode::kCorrupt));
}

TEST_F(QuotasTest, ARefusedFileChangesNothing) {
  open_root_to_all();
  ASSERT_THAT(quotas().set_limits(kAnn, QuotaLimits{.bytes = {}, .files = 1}), IsOk());
  ASSERT_THAT(create("/a", kAnn), IsOk());
  EXPECT_THAT(create("/b", kAnn), StatusIs(ErrorCode::kQuota, HasSubstr("user 2001 may have 1 files")));
  EXPECT_THAT(metadata->lookup("/b", user(0)), StatusIs(ErrorCode::kNotFound));
  EXPECT_THAT(create("/b", kBill), IsOk());
  EXPECT_EQ(quotas().use_of(kAnn).files, 1);
  EXPECT_THAT(give("/b", kAnn), IsOk()) << "root may exceed limits of others";
  EXPECT_EQ(quotas().use_of(kAnn).files, 2);
  expect_consistent(*store);
}

TEST_F(QuotasTest, LeasesFollowTheOwnerAndEndWithTheFile) {
  open_root_to_all();
  ASSERT_THAT(quotas().set_limits(kAnn, QuotaLimits{.bytes = 10'000, .files = {}}), IsOk());
  const wire::AttributesT file = *create("/a", kAnn);
  quotas().note_held(1, {file.data, 0, 77, 1});
  EXPECT_THAT(quotas().lease(1, file.data, 4096, 8192), IsOkAndHolds(8192));
  EXPECT_EQ(quotas().use_of(kAnn).bytes, 8192);
  EXPECT_THAT(quotas().slack_of({}), ElementsAre(std::pair(1U, file.data)));
  EXPECT_THAT(quotas().lease(0, file.data, 4096, 4096),
              StatusIs(ErrorCode::kQuota, HasSubstr("user 2001 may have 10000 bytes and has 8192")));
  quotas().note_held(1, {file.data, 4096, 77, 3});
  quotas().note_held(1, {file.data, 99'999, 77, 2});  // older
  EXPECT_EQ(quotas().use_of(kAnn).bytes, 4096);
  EXPECT_THAT(quotas().lease(0, file.data, 4096, 1 << 20), IsOkAndHolds(10'000 - 4096)) << "as much as there is";

  ASSERT_THAT(give("/a", kBill), IsOk());
  EXPECT_EQ(quotas().use_of(kAnn).bytes, 0);
  EXPECT_EQ(quotas().use_of(kBill).bytes, 10'000);
  EXPECT_THAT(quotas().lease(1, file.data, 1, Offset{1} << 40), IsOkAndHolds(Offset{1} << 40)) << "Bill has no limit";
  ASSERT_THAT(metadata->remove(remove_request("/a"), user(0)), IsOk());
  EXPECT_EQ(quotas().use_of(kBill).bytes, 0);
  EXPECT_TRUE(quotas().slack_of({}).empty());
  EXPECT_THAT(quotas().lease(1, file.data, 1, 1), StatusIs(ErrorCode::kStale));
}

TEST_F(QuotasTest, ARelayoutUnderWayBelongsToTheOwnerOfTheFile) {
  open_root_to_all();
  ASSERT_THAT(quotas().set_limits(kAnn, QuotaLimits{.bytes = 10'000, .files = {}}), IsOk());
  ASSERT_THAT(create("/a", kAnn), IsOk());
  wire::BeginRelayoutT begin;
  begin.path = "/a";
  begin.layout = layout_bytes("stripe(unit=8, over=2)");
  const wire::AttributesT after = *metadata->begin_relayout(begin, user(kAnn));
  ASSERT_THAT(quotas().lease(0, after.data, 4096, 4096), IsOk());
  EXPECT_EQ(quotas().use_of(kAnn).bytes, 4096);
  ASSERT_THAT(give("/a", kBill), IsOk());
  EXPECT_EQ(quotas().use_of(kBill).bytes, 4096);
  wire::EndRelayoutT end;
  end.file = after.file;
  end.data = after.data;
  end.commit = true;
  ASSERT_THAT(metadata->end_relayout(end, user(0)), IsOk());
  EXPECT_EQ(quotas().use_of(kBill), (QuotaUse{.bytes = 4096, .files = 1}));
}

TEST_F(QuotasTest, LeasesOfEarlierLivesOfAServerEnd) {
  open_root_to_all();
  ASSERT_THAT(quotas().set_limits(kAnn, QuotaLimits{.bytes = 10'000, .files = {}}), IsOk());
  const wire::AttributesT a = *create("/a", kAnn);
  const wire::AttributesT b = *create("/b", kAnn);
  for (const wire::AttributesT& file : {a, b}) quotas().note_held(1, {file.data, 4096, 77, 9});
  quotas().note_held(1, {a.data, 100, 78, 1});  // it begins anew
  quotas().forget_earlier(1, 78);
  EXPECT_EQ(quotas().use_of(kAnn).bytes, 100);
}

// Random changes, against a model; and against what a restart counts.
TEST_F(QuotasTest, FilesAreThoseThatThereAre) {
  const std::uint64_t seed = testing::choose_seed();
  SCOPED_TRACE(concat("WEIR_TEST_SEED=", seed));
  std::mt19937_64 random(seed);
  open_root_to_all();
  ASSERT_THAT(quotas().set_limits(kAnn, QuotaLimits{.bytes = {}, .files = 6}), IsOk());
  std::map<std::string, UserId> model;
  const auto count = [&](UserId owner) {
    return std::count_if(model.begin(), model.end(), [&](const auto& entry) { return entry.second == owner; });
  };
  for (int step = 0; step < 2000; ++step) {
    SCOPED_TRACE(step);
    const std::string path = concat("/", random() % 12);
    const std::string to = concat("/", random() % 12);
    const UserId who = random() % 2 == 0 ? kAnn : kBill;
    const bool is_there = model.contains(path);
    switch (random() % 5) {
      case 0: {
        const bool may = !is_there && (who != kAnn || count(kAnn) < 6);
        EXPECT_EQ(create(path, who).is_ok(), may);
        if (may) model[path] = who;
        break;
      }
      case 1: {
        EXPECT_EQ(metadata->remove(remove_request(path), user(0)).is_ok(), is_there);
        model.erase(path);
        break;
      }
      case 2: {
        EXPECT_EQ(metadata->rename(rename_request(path, to), user(0)).is_ok(), is_there);
        if (!is_there || path == to) break;
        model[to] = model[path];
        model.erase(path);
        break;
      }
      case 3: {
        EXPECT_EQ(give(path, who).is_ok(), is_there);
        if (is_there) model[path] = who;
        break;
      }
      default:
        if (step % 50 == 4) open();
        break;
    }
    ASSERT_EQ(quotas().use_of(kAnn).files, count(kAnn));
    ASSERT_EQ(quotas().use_of(kBill).files, count(kBill));
  }
  expect_consistent(*store);
}

}  // namespace
}  // namespace weir::server::internal
