// Which store is which, and what peers are told of a fenced subfile.

#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/internal/disk_testing.h>
#include <weir/storage/memory_store.h>

namespace weir::storage {
namespace {

using internal::TemporaryDirectory;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(StoreIdTest, AMemoryStoreIsAnotherEachTime) {
  const auto a = make_memory_store({});
  const auto b = make_memory_store({});
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_NE((*a)->id(), 0u);
  EXPECT_NE((*a)->id(), (*b)->id());
}

std::uint64_t id_of(const std::string& directory) {
  const auto store = open_disk_store(directory);
  EXPECT_THAT(store, IsOk());
  return store.is_ok() ? (*store)->id() : 0;
}

TEST(StoreIdTest, ADiskStoreStaysWhatItIs) {
  const TemporaryDirectory a;
  const TemporaryDirectory b;
  const std::uint64_t id = id_of(a.path());
  EXPECT_NE(id, 0u);
  EXPECT_EQ(id_of(a.path()), id);
  EXPECT_NE(id_of(b.path()), id);
}

TEST(StoreIdTest, AStoreOfAnotherVersionIsRefusedAndLeftAlone) {
  const TemporaryDirectory directory;
  const std::string text = "weir disk store, version 1\npart_bytes 65536\nid 4f1c0a7be25d9936\n";
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  const internal::Bytes bytes(begin, begin + text.size());
  internal::save_file(directory.path() + "/settings", bytes);
  EXPECT_THAT(open_disk_store(directory.path(), {}),
              StatusIs(ErrorCode::kCorrupt, HasSubstr("of another version than this program reads")));
  EXPECT_EQ(internal::load_file(directory.path() + "/settings"), bytes);
}

TEST(FenceTest, PeersSeeItInMemoryThatTheyMapBeforeAndAfter) {
  const auto store = make_memory_store({});
  ASSERT_THAT(store, IsOk());
  const auto state_of = [&](SubfileId id) {
    const auto shared = (*store)->share(id, true, 0, share::Peers::kOwn);
    EXPECT_THAT(shared, IsOk());
    std::uint32_t state = 0;
    EXPECT_EQ(::pread((*shared)->descriptor, &state, sizeof state, 0), static_cast<ssize_t>(sizeof state));
    return state;
  };
  const SubfileId before{1, 0};
  const SubfileId after{2, 0};
  EXPECT_EQ(state_of(before), share::Control::kServing);
  (*store)->fence(before, true);
  (*store)->fence(after, true);
  EXPECT_EQ(state_of(before), share::Control::kFenced);
  EXPECT_EQ(state_of(after), share::Control::kFenced) << "shared only now";
  (*store)->fence(before, false);
  EXPECT_EQ(state_of(before), share::Control::kServing);
}

}  // namespace
}  // namespace weir::storage
