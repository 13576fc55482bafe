// Which system calls make a disk store durable, in which order, and what happens when one of them fails.

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/internal/disk_sums.h>
#include <weir/storage/internal/disk_testing.h>
#include <weir/storage/internal/interposed_calls.h>

namespace weir::storage {
namespace {

using internal::Bytes;
using internal::FileCall;
using internal::InterposedCalls;
using internal::kBlockBytes;
using internal::random_bytes;
using internal::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::weir::testing::IsOk;
using ::weir::testing::IsOkAndHolds;
using ::weir::testing::StatusIs;

constexpr SubfileId kOne{7, 0};

bool is_sync(const FileCall& call) { return call.name == "fsync" || call.name == "fdatasync" || call.name == "syncfs"; }

class DiskDurabilityTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string directory() const { return directory_.path(); }
  std::unique_ptr<Store> open(DiskStoreOptions options = {}) const {
    options.use_uring = false;
    auto store = open_disk_store(directory(), options);
    EXPECT_THAT(store.status(), IsOk());
    return store.is_ok() ? std::move(*store) : nullptr;
  }
  Bytes bytes(Offset size = 2 * kBlockBytes) { return random_bytes(random_, size); }

  TemporaryDirectory directory_;
  std::mt19937_64 random_{1};
};

TEST_F(DiskDurabilityTest, SettingsAreDurableBeforeTheStoreIsUsed) {
  InterposedCalls calls(directory());
  const auto store = open();
  EXPECT_THAT(calls.done(), ElementsAre("open lock", "open settings.new", "pwrite settings.new", "fsync settings.new",
                                        "rename settings.new settings", "fsync ."));
}

// A crash would otherwise take the store with the name of a folder above it.
TEST_F(DiskDurabilityTest, FoldersAboveANewStoreAreDurableOneByOne) {
  InterposedCalls calls(directory());
  const auto store = open_disk_store(directory() + "/above/store", {.use_uring = false});
  ASSERT_THAT(store.status(), IsOk());
  std::vector<std::string> done = calls.done();
  ASSERT_GE(done.size(), 5u);
  done.resize(5);
  EXPECT_THAT(done, ElementsAre("mkdir above", "fsync .", "mkdir above/store", "fsync above", "open above/store/lock"));
}

TEST_F(DiskDurabilityTest, ASyncMakesContentsDurableThenNamesThenSums) {
  const auto store = open();
  const std::string folder = internal::folder_of(kOne);
  const std::string data = folder + "/7.0.0.data";
  const std::string sums = folder + "/7.0.0.sums";
  InterposedCalls calls(directory());
  ASSERT_THAT(internal::write(*store, kOne, 0, bytes()), IsOk());
  EXPECT_THAT(calls.done(), ElementsAre("mkdir " + folder, "open " + sums, "open " + data, "pwrite " + data));
  calls.clear();
  ASSERT_THAT(Blocking(*store).sync(kOne), IsOk());
  EXPECT_THAT(calls.done(),
              ElementsAre("ftruncate " + sums, "fdatasync " + data, "fdatasync " + sums, "fsync " + folder, "fsync .",
                          "pwrite " + sums, "pwrite " + sums, "fdatasync " + sums));
  calls.clear();
  ASSERT_THAT(Blocking(*store).sync(kOne), IsOk());
  EXPECT_THAT(calls.done(), ElementsAre()) << "nothing was written since";
  // What is about to change has no sum any more, durably, before it changes.
  ASSERT_THAT(internal::write(*store, kOne, 0, bytes(10)), IsOk());
  EXPECT_THAT(calls.done(), ElementsAre("pwrite " + sums, "fdatasync " + sums, "pwrite " + data));
  calls.clear();
  ASSERT_THAT(Blocking(*store).sync(kOne), IsOk());
  EXPECT_THAT(calls.done(), ElementsAre("fdatasync " + data, "pwrite " + sums, "pwrite " + sums, "fdatasync " + sums));
  calls.clear();
  ASSERT_THAT(Blocking(*store).truncate(kOne, kBlockBytes, 0), IsOk());
  EXPECT_THAT(calls.done(), ElementsAre("pwrite " + sums, "pwrite " + sums, "fdatasync " + sums, "ftruncate " + data));
  calls.clear();
  ASSERT_THAT(Blocking(*store).remove(kOne), IsOk());
  EXPECT_THAT(calls.done(), ElementsAre("rename " + sums + " " + folder + "/7.0.0.gone", "unlink " + data,
                                        "unlink " + folder + "/7.0.0.gone"));
}

TEST_F(DiskDurabilityTest, MorePartsAreKnownDurablyBeforeThereAreAny) {
  const auto store = open({.part_bytes = 2 * kBlockBytes});
  InterposedCalls calls(directory());
  ASSERT_THAT(internal::write(*store, kOne, 0, bytes(3 * kBlockBytes)), IsOk());
  const std::vector<std::string> done = calls.done();
  const std::string folder = internal::folder_of(kOne);
  const auto at = [&](const std::string& call) { return std::find(done.begin(), done.end(), call) - done.begin(); };
  EXPECT_LT(at("fdatasync " + folder + "/7.0.0.sums"), at("fsync " + folder));
  EXPECT_LT(at("fsync " + folder), at("open " + folder + "/7.0.1.sums"));
  EXPECT_LT(at("fsync ."), at("open " + folder + "/7.0.1.sums"));
  EXPECT_LT(at("open " + folder + "/7.0.1.sums"), std::ssize(done));
}

TEST_F(DiskDurabilityTest, FencesAreReplacedAsAWhole) {
  const auto store = open();
  const std::vector<KeptFence> first{{kOne, 5}};
  const std::vector<KeptFence> second{{kOne, 6}, {{8, 1}, 7}};
  ASSERT_THAT(Blocking(*store).keep_fences(first), IsOk());
  for (const std::string failing : {"open", "pwrite", "fsync", "rename"}) {
    SCOPED_TRACE(failing);
    InterposedCalls calls(directory(), [&](const FileCall& call) { return call.name == failing ? EIO : 0; });
    EXPECT_THAT(Blocking(*store).keep_fences(second), StatusIs(ErrorCode::kIoError));
    EXPECT_THAT(Blocking(*store).kept_fences(), IsOkAndHolds(first));
  }
  InterposedCalls calls(directory());
  ASSERT_THAT(Blocking(*store).keep_fences(second), IsOk());
  EXPECT_THAT(calls.done(), ::testing::IsSupersetOf({"fsync fences.new", "rename fences.new fences", "fsync ."}));
  EXPECT_EQ(calls.done().back(), "fsync .");
  EXPECT_THAT(Blocking(*store).kept_fences(), IsOkAndHolds(second));
}

// Not read into memory, either.
TEST_F(DiskDurabilityTest, FencesOfATerabyteAreDamaged) {
  const auto store = open();
  ASSERT_THAT(Blocking(*store).keep_fences(std::vector<KeptFence>{{kOne, 5}}), IsOk());
  std::filesystem::resize_file(directory() + "/fences", std::uintmax_t{1} << 40);
  EXPECT_THAT(Blocking(*store).kept_fences(), StatusIs(ErrorCode::kCorrupt));
}

// A crash in the middle of a sync left a sum behind the length that counts.  The subfile must not grow over it.
TEST_F(DiskDurabilityTest, SumsBehindTheEndAreClearedDurablyWhenOpened) {
  ASSERT_THAT(internal::write(*open(), kOne, 0, bytes()), IsOk());  // synced when the store is closed
  const std::string sums = directory() + "/" + internal::folder_of(kOne) + "/7.0.0.sums";
  Bytes image = internal::load_file(sums);
  const auto at = static_cast<std::size_t>(internal::kSumsStart) + 2 * sizeof(std::uint64_t);
  ASSERT_LT(at, image.size());
  image[at] = std::byte{42};
  internal::save_file(sums, image);
  {
    InterposedCalls calls(directory());
    const auto store = open();
    ASSERT_THAT(Blocking(*store).info(kOne).status(), IsOk());
    EXPECT_EQ(calls.count("fdatasync " + internal::folder_of(kOne) + "/7.0.0.sums"), 1);
    EXPECT_EQ(internal::load_file(sums)[at], std::byte{0});
    ASSERT_THAT(Blocking(*store).truncate(kOne, 4 * kBlockBytes, 0), IsOk());
    EXPECT_THAT(internal::read(*store, kOne, 2 * kBlockBytes, kBlockBytes),
                IsOkAndHolds(Bytes(static_cast<std::size_t>(kBlockBytes))));
  }
  const auto store = open();
  InterposedCalls calls(directory());
  EXPECT_THAT(internal::read(*store, kOne, 2 * kBlockBytes, kBlockBytes),
              IsOkAndHolds(Bytes(static_cast<std::size_t>(kBlockBytes))));
  EXPECT_EQ(calls.count("fdatasync"), 0) << "there is nothing to clear";
}

// ---- failures

// Every wait for the disk fails once, in turn: none is taken for done.
TEST_F(DiskDurabilityTest, EveryFailedSyncIsReported) {
  for (int fail_at = 0;; ++fail_at) {
    SCOPED_TRACE(fail_at);
    ASSERT_LT(fail_at, 100);
    const SubfileId id{static_cast<std::uint64_t>(100 + fail_at), 0};
    int count = 0;
    bool fired = false;
    bool is_data = false;
    const auto store = open({.part_bytes = 2 * kBlockBytes});
    {
      InterposedCalls calls(directory(), [&](const FileCall& call) {
        if (!is_sync(call) || count++ != fail_at) return 0;
        fired = true;
        is_data = call.path.ends_with(".data");
        return EIO;
      });
      Status status = internal::write(*store, id, 0, bytes(3 * kBlockBytes));
      if (status.is_ok()) status = Blocking(*store).sync(id);
      if (status.is_ok()) status = internal::write(*store, id, 5, bytes(100));
      if (status.is_ok()) status = Blocking(*store).sync(id);
      if (status.is_ok()) status = Blocking(*store).truncate(id, 1000, 1000);
      if (status.is_ok()) status = Blocking(*store).sync(id);
      if (!fired) {
        EXPECT_THAT(status, IsOk());
        break;
      }
      EXPECT_THAT(status, StatusIs(ErrorCode::kIoError));
    }
    if (is_data) {
      EXPECT_THAT(Blocking(*store).sync(id), StatusIs(ErrorCode::kIoError, HasSubstr("lost"))) << "not by trying again";
    }
    EXPECT_THAT(Blocking(*store).remove(id), IsOk());
    EXPECT_THAT(internal::write(*store, id, 0, bytes(10)), IsOk());
    EXPECT_THAT(Blocking(*store).sync(id), IsOk());
    EXPECT_THAT(Blocking(*store).remove(id), IsOk());
  }
}

// Nobody waits for what the store syncs to make room in its memory: who wrote is told later.
TEST_F(DiskDurabilityTest, AFailedSyncOfTheFileSystemReachesAllWhoWrote) {
  constexpr std::uint64_t kFiles = 100;
  for (const int failing : {0, 1}) {
    SCOPED_TRACE(failing);
    int syncs = 0;
    bool is_armed = false;
    InterposedCalls calls(directory(), [&](const FileCall& call) {
      return is_armed && call.name == "syncfs" && syncs++ == failing ? EIO : 0;
    });
    const auto store = open({.max_checksum_bytes = 32 << 10});  // some must come together for a sync of all
    // Synced before: nothing of it can be lost.
    ASSERT_THAT(internal::write(*store, {1, 0}, 0, bytes()), IsOk());
    ASSERT_THAT(Blocking(*store).sync({1, 0}), IsOk());
    std::uint64_t files = 0;
    is_armed = true;
    while (files < kFiles && syncs <= failing) {
      ASSERT_THAT(internal::write(*store, {10 + files, 0}, 0, bytes(100)), IsOk());
      ++files;
    }
    ASSERT_GT(syncs, failing) << "the test has not come to the point";
    is_armed = false;
    int lost = 0;
    for (std::uint64_t i = 0; i < files; ++i) {
      const Status status = Blocking(*store).sync({10 + i, 0});
      if (status.is_ok()) continue;
      EXPECT_THAT(status, StatusIs(ErrorCode::kIoError, HasSubstr("lost")));
      EXPECT_THAT(Blocking(*store).sync({10 + i, 0}), StatusIs(ErrorCode::kIoError));
      ++lost;
    }
    EXPECT_GE(lost, 8);
    // The lost ones do not keep others from being synced when room is made again.
    for (const std::uint64_t file : {0x501, 0x502})
      ASSERT_THAT(internal::write(*store, {file, 0}, 0, bytes(100)), IsOk());
    EXPECT_EQ(calls.count("fdatasync " + internal::folder_of({0x501, 0}) + "/501.0.0.data"), 1);
    for (const std::uint64_t file : {0x501, 0x502}) ASSERT_THAT(Blocking(*store).remove({file, 0}), IsOk());
    EXPECT_THAT(Blocking(*store).sync({1, 0}), IsOk());
    for (std::uint64_t i = 0; i < files; ++i) EXPECT_THAT(Blocking(*store).remove({10 + i, 0}), IsOk());
    EXPECT_THAT(internal::write(*store, {10, 0}, 0, bytes(100)), IsOk());
    EXPECT_THAT(Blocking(*store).sync({10, 0}), IsOk());
    EXPECT_THAT(Blocking(*store).remove({10, 0}), IsOk());
  }
}

// An error of the device is reported, not tried again through the page cache, which might hide it.
TEST_F(DiskDurabilityTest, AnErrorOfTheDeviceIsNotTriedAgain) {
  const auto store = open({.direct_from_bytes = kBlockBytes});
  ASSERT_THAT(internal::write(*store, kOne, 0, bytes(10)), IsOk());
  int writes = 0;
  InterposedCalls calls(directory(), [&](const FileCall& call) {
    if (call.name != "pwrite" || !call.path.ends_with(".data")) return 0;
    ++writes;
    return EIO;
  });
  EXPECT_THAT(internal::write(*store, kOne, 0, bytes(4 * kBlockBytes)), StatusIs(ErrorCode::kIoError));
  EXPECT_EQ(writes, 1);
}

}  // namespace
}  // namespace weir::storage
