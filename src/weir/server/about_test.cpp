// What servers keep beside subfiles, and names for files that were lost.

#include <weir/server/internal/about.h>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/server/internal/testing.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/faulty_store.h>
#include <weir/storage/memory_store.h>

namespace weir::server::internal {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr storage::SubfileId kId{17, 3};

std::vector<std::uint8_t> about_bytes(const std::string& path, std::int64_t changed_ns, std::uint64_t data = 17,
                                      std::uint32_t element = 3) {
  wire::AboutT about;
  about.path = path;
  about.element = element;
  about.attributes = std::make_unique<wire::AttributesT>();
  about.attributes->data = data;
  about.attributes->changed_ns = changed_ns;
  return wire::encode_about(about);
}

Status keep(storage::Store& store, storage::SubfileId id, const std::vector<std::uint8_t>& about) {
  return storage::Blocking(store).finish([&] { return keep_newer_about(store, id, about); });
}

Status look(storage::Store& store, wire::SubfileInfoT& info) {
  return storage::Blocking(store).finish([&] { return add_about(store, kId, info); });
}

std::string kept_path(storage::Store& store) {
  wire::SubfileInfoT info;
  EXPECT_THAT(look(store, info), IsOk());
  EXPECT_EQ(info.about_error, "");
  const Result<wire::AboutT> about = wire::decode_about(std::as_bytes(std::span(info.about)));
  return about.is_ok() ? about->path : "none";
}

TEST(AboutTest, WhatIsNewerStays) {
  const TemporaryDirectory directory;
  const auto store = storage::open_disk_store(directory.path());
  ASSERT_THAT(store, IsOk());
  EXPECT_EQ(kept_path(**store), "none");
  ASSERT_THAT(keep(**store, kId, about_bytes("/a", 10)), IsOk());
  ASSERT_THAT(keep(**store, kId, about_bytes("/renamed", 20)), IsOk());
  ASSERT_THAT(keep(**store, kId, about_bytes("/a", 10)), IsOk()) << "by one who opened it before";
  EXPECT_EQ(kept_path(**store), "/renamed");
  ASSERT_THAT(keep(**store, kId, about_bytes("/directory-renamed", 20)), IsOk());
  EXPECT_EQ(kept_path(**store), "/directory-renamed");
  ASSERT_THAT(keep(**store, kId, {}), IsOk());
  EXPECT_EQ(kept_path(**store), "/directory-renamed") << "nothing told is nothing changed";
}

TEST(AboutTest, WhatMakesNoSenseOrIsDamagedIsReplaced) {
  const TemporaryDirectory directory;
  const auto store = storage::open_disk_store(directory.path());
  ASSERT_THAT(store, IsOk());
  ASSERT_THAT(storage::Blocking(**store).keep_about(kId, std::as_bytes(std::span("no table"))), IsOk());
  ASSERT_THAT(keep(**store, kId, about_bytes("/a", 10)), IsOk());
  EXPECT_EQ(kept_path(**store), "/a");
}

TEST(AboutTest, AnErrorOfTheStoreIsNoDamage) {
  const TemporaryDirectory directory;
  auto opened = storage::open_disk_store(directory.path());
  ASSERT_THAT(opened, IsOk());
  const std::shared_ptr<storage::Store> disk = std::move(*opened);
  ASSERT_THAT(keep(*disk, kId, about_bytes("/newer", 20)), IsOk());
  const auto faults = std::make_shared<storage::Faults>(storage::FaultOptions{.fail_at = 0});
  storage::FaultyStore faulty{disk, faults};
  EXPECT_THAT(keep(faulty, kId, about_bytes("/older", 10)), StatusIs(ErrorCode::kIoError));
  const auto more = std::make_shared<storage::Faults>(storage::FaultOptions{.fail_at = 0});
  storage::FaultyStore again{disk, more};
  wire::SubfileInfoT info;
  EXPECT_THAT(look(again, info), StatusIs(ErrorCode::kIoError)) << "not known is not damaged";
  EXPECT_EQ(kept_path(*disk), "/newer");
}

TEST(AboutTest, AMemoryStoreKeepsNone) {
  const auto store = storage::make_memory_store({});
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(keep(**store, kId, about_bytes("/a", 10)), IsOk());
  EXPECT_EQ(kept_path(**store), "none");
}

TEST(AboutTest, BytesOfClientsAreChecked) {
  EXPECT_THAT(check_about(kId, about_bytes("/a", 10)), IsOk());
  EXPECT_THAT(check_about(kId, {}), IsOk());
  EXPECT_THAT(check_about(kId, about_bytes("/a", 10, 18)), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("data 18")));
  EXPECT_THAT(check_about(kId, about_bytes("/a", 10, 17, 4)), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check_about(kId, std::vector<std::uint8_t>(100, 7)), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check_about(kId, std::vector<std::uint8_t>((std::size_t{8} << 20) + 1)),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("at most")));
}

// ---------------------------------------------------------------- Metadata::adopt

class AdoptTest : public ::testing::Test {
 protected:
  AdoptTest() : store_(storage::make_memory_key_value()) { open(); }
  void open() {
    auto opened = Metadata::open(*store_, {.uid = 1000, .gid = 100, .now_ns = {}});
    EXPECT_THAT(opened, IsOk());
    metadata_ = std::move(*opened);
    metadata_->set_target_count(2);
  }
  ~AdoptTest() override { expect_consistent(*store_); }

  static wire::AdoptT request(const std::string& path, std::uint64_t data) {
    wire::AdoptT adopt;
    adopt.path = path;
    adopt.attributes = std::make_unique<wire::AttributesT>();
    adopt.attributes->file = adopt.attributes->data = data;
    adopt.attributes->epoch = 3;
    adopt.attributes->mode = 0640;
    adopt.attributes->uid = 7;
    adopt.attributes->gid = 8;
    adopt.attributes->layout = layout_bytes("stripe(unit=4, over=2)");
    adopt.attributes->targets = {1, 0};
    adopt.attributes->stores = {11, 12};
    return adopt;
  }

  std::unique_ptr<storage::KeyValue> store_;
  std::unique_ptr<Metadata> metadata_;
  net::Identity owner_ = user(1000);
};

TEST_F(AdoptTest, TheFileIsWhatItWas) {
  ASSERT_THAT(metadata_->adopt(request("/x", 5000), owner_), IsOk());
  open();
  const auto found = metadata_->lookup("/x", owner_);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->file, 5000U);
  EXPECT_EQ(found->data, 5000U);
  EXPECT_EQ(found->epoch, 3U);
  EXPECT_EQ(found->mode, 0640U);
  EXPECT_EQ(found->uid, 7U);
  EXPECT_EQ(found->gid, 8U);
  EXPECT_THAT(found->targets, ::testing::ElementsAre(1, 0));
  EXPECT_THAT(found->stores, ::testing::ElementsAre(11, 12));
  const auto next = metadata_->create(create_request("/next"), owner_);
  ASSERT_THAT(next, IsOk());
  EXPECT_GT(next->file, 5000U) << "no number twice";
}

TEST_F(AdoptTest, NumbersGoOnBehindItWithoutARestart) {
  ASSERT_THAT(metadata_->adopt(request("/x", 5000), owner_), IsOk());
  const auto next = metadata_->create(create_request("/next"), owner_);
  ASSERT_THAT(next, IsOk());
  EXPECT_GT(next->file, 5000U);
}

TEST_F(AdoptTest, DataOfAnotherFileIsRefused) {
  const auto made = metadata_->create(create_request("/made"), owner_);
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(metadata_->adopt(request("/x", made->data), owner_), StatusIs(ErrorCode::kExists, HasSubstr("data")));
  wire::BeginRelayoutT begin;
  begin.path = "/made";
  begin.layout = layout_bytes("stripe(unit=8, over=1)");
  const auto pending = metadata_->begin_relayout(begin, owner_);
  ASSERT_THAT(pending, IsOk());
  EXPECT_THAT(metadata_->adopt(request("/x", pending->data), owner_), StatusIs(ErrorCode::kExists, HasSubstr("data")));
  EXPECT_THAT(metadata_->lookup("/x", owner_), StatusIs(ErrorCode::kNotFound));
}

TEST_F(AdoptTest, ANumberThatAFileHasIsNotTaken) {
  const auto made = metadata_->create(create_request("/made"), owner_);
  ASSERT_THAT(made, IsOk());
  wire::AdoptT adopt = request("/x", 5000);
  adopt.attributes->file = made->file;  // an older layout of it
  const auto adopted = metadata_->adopt(adopt, owner_);
  ASSERT_THAT(adopted, IsOk());
  EXPECT_NE(adopted->file, made->file);
  EXPECT_EQ(metadata_->lookup("/made", owner_)->file, made->file);
}

TEST_F(AdoptTest, RefusesWhatIsWrong) {
  ASSERT_THAT(metadata_->adopt(request("/x", 5000), owner_), IsOk());
  EXPECT_THAT(metadata_->adopt(request("/x", 5001), owner_), StatusIs(ErrorCode::kExists));
  EXPECT_THAT(metadata_->adopt(request("/y", 0), owner_), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(metadata_->adopt(request("/y", ~std::uint64_t{0}), owner_), StatusIs(ErrorCode::kInvalidArgument));
  wire::AdoptT adopt = request("/y", 5002);
  adopt.attributes->targets = {0, 2};
  EXPECT_THAT(metadata_->adopt(adopt, owner_), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("no target 2")));
  adopt.attributes->targets = {0};
  EXPECT_THAT(metadata_->adopt(adopt, owner_), StatusIs(ErrorCode::kInvalidArgument));
  adopt.attributes->layout = {1};
  EXPECT_THAT(metadata_->adopt(adopt, owner_), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(metadata_->adopt(request("/none/y", 5002), owner_), StatusIs(ErrorCode::kNotFound));
}

// Every step of the key-value store fails once: the name is there with all of the file, or not at all.
TEST_F(AdoptTest, AFailureLeavesAllOrNothing) {
  for (int fail_at = 0;; ++fail_at) {
    SCOPED_TRACE(fail_at);
    const std::shared_ptr<storage::KeyValue> store = storage::make_memory_key_value();
    {
      const auto made = Metadata::open(*store, {.uid = 1000, .gid = 100, .now_ns = {}});
      ASSERT_THAT(made, IsOk());
    }
    const auto faults =
        std::make_shared<storage::Faults>(storage::FaultOptions{.fail_at = fail_at + 3});  // opened by then
    storage::FaultyKeyValue faulty{store, faults};
    const auto metadata = Metadata::open(faulty, {.uid = 1000, .gid = 100, .now_ns = {}});
    ASSERT_THAT(metadata, IsOk());
    (*metadata)->set_target_count(2);
    const bool is_done = (*metadata)->adopt(request("/x", 5000), owner_).is_ok();
    expect_consistent(*store);
    EXPECT_EQ(is_done, !faults->fired());
    if (!faults->fired()) break;
    const auto again = Metadata::open(*store, {.uid = 1000, .gid = 100, .now_ns = {}});
    ASSERT_THAT(again, IsOk());
    (*again)->set_target_count(2);
    const auto found = (*again)->lookup("/x", owner_);
    EXPECT_TRUE(found.is_ok() || (*again)->adopt(request("/x", 5000), owner_).is_ok());
  }
}

}  // namespace
}  // namespace weir::server::internal
