// Labels, and the settings of a disk store that hold one.

#include <weir/storage/label.h>

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/internal/disk_testing.h>

namespace weir::storage {
namespace {

using internal::TemporaryDirectory;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::weir::testing::IsOk;
using ::weir::testing::IsOkAndHolds;
using ::weir::testing::StatusIs;

constexpr Label kFormed{0x4f1c0a7be25d9936, 1, 2, true};

internal::Bytes to_file(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

TEST(LabelTest, ComesBackAsItWas) {
  for (const Label& label : {kFormed, Label{~std::uint64_t{0}, 1023, 1024, true}, Label{1, 7, 0, false}, Label{}}) {
    EXPECT_THAT(decode_label(encode_label(label)), IsOkAndHolds(label)) << encode_label(label);
  }
}

TEST(LabelTest, EveryFlippedBitIsFound) {
  const std::string good = encode_label(kFormed);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(decode_label(bad), StatusIs(ErrorCode::kCorrupt)) << bit;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(decode_label(good.substr(0, size)), StatusIs(ErrorCode::kCorrupt)) << size;
  }
}

// A checksum that is right does not make sense of nonsense: a server that there cannot be.
TEST(LabelTest, RefusesAServerBeyondTheirNumber) {
  EXPECT_THAT(decode_label(encode_label({1, 2, 2, true})), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(decode_label(encode_label({1, 0, 0, true})), StatusIs(ErrorCode::kCorrupt));
}

TEST(DiskLabelTest, IsKeptWithTheStore) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/a/b/store";
  EXPECT_THAT(read_disk_label(path), IsOkAndHolds(std::optional<Label>{}));
  std::uint64_t id = 0;
  {
    const auto store = open_disk_store(path, {.label = {5, 1, 0, false}});
    ASSERT_THAT(store, IsOk());
    id = (*store)->id();
    EXPECT_EQ((*store)->label(), (Label{5, 1, 0, false}));
    EXPECT_THAT(read_disk_label(path), IsOkAndHolds(Optional(Label{5, 1, 0, false}))) << "while it is in use";
    EXPECT_THAT(Blocking(**store).set_label(kFormed), IsOk());
    EXPECT_EQ((*store)->label(), kFormed);
  }
  const auto again = open_disk_store(path, {.label = {6, 0, 0, false}});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*again)->label(), kFormed) << "the label of a store that is there counts";
  EXPECT_EQ((*again)->id(), id);
}

TEST(DiskLabelTest, ALabelThatCannotBeWrittenIsNotTaken) {
  const TemporaryDirectory directory;
  const auto store = open_disk_store(directory.path(), {.label = {5, 1, 0, false}});
  ASSERT_THAT(store, IsOk());
  std::filesystem::create_directory(directory.path() + "/settings.new");  // in the way of the draft
  EXPECT_FALSE(Blocking(**store).set_label(kFormed).is_ok());
  EXPECT_EQ((*store)->label(), (Label{5, 1, 0, false}));
  EXPECT_THAT(read_disk_label(directory.path()), IsOkAndHolds(Optional(Label{5, 1, 0, false})));
}

TEST(DiskLabelTest, EveryDamagedByteOfTheSettingsIsFound) {
  const TemporaryDirectory directory;
  ASSERT_THAT(open_disk_store(directory.path(), {.label = kFormed}), IsOk());
  const std::string path = directory.path() + "/settings";
  const internal::Bytes good = internal::load_file(path);
  for (std::size_t at = 0; at < good.size(); ++at) {
    internal::Bytes bad = good;
    bad[at] ^= std::byte{4};
    internal::save_file(path, bad);
    EXPECT_THAT(read_disk_label(directory.path()), StatusIs(ErrorCode::kCorrupt, HasSubstr(path))) << at;
    EXPECT_THAT(open_disk_store(directory.path()).status(), StatusIs(ErrorCode::kCorrupt)) << at;
  }
  internal::save_file(path, good);
  EXPECT_THAT(open_disk_store(directory.path()), IsOk());
}

TEST(DiskLabelTest, StoresOfOtherVersionsAreRefusedAndLeftAlone) {
  for (const std::string version : {"1", "2", "4", "33"}) {
    const TemporaryDirectory directory;
    const internal::Bytes bytes =
        to_file("weir disk store, version " + version + "\npart_bytes 65536\nid 4f1c0a7be25d9936\n");
    internal::save_file(directory.path() + "/settings", bytes);
    EXPECT_THAT(open_disk_store(directory.path()).status(),
                StatusIs(ErrorCode::kCorrupt, HasSubstr("weir disk store, version " + version + "\"; copy its files")));
    EXPECT_EQ(internal::load_file(directory.path() + "/settings"), bytes);
  }
}

}  // namespace
}  // namespace weir::storage
