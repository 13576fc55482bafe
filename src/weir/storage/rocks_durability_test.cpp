// What RocksKeyValue promises beyond being a map: what is durable when, that damage is found, and that a full disk ends
// nothing.

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/mount.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/storage/internal/disk_testing.h>
#include <weir/storage/internal/group_commit.h>
#include <weir/storage/internal/interposed_calls.h>
#include <weir/storage/internal/watermark.h>
#include <weir/storage/key_value.h>

namespace weir::storage {
namespace {

namespace fs = std::filesystem;

using internal::Bytes;
using internal::FileCall;
using internal::InterposedCalls;
using internal::load_file;
using internal::save_file;
using internal::TemporaryDirectory;
using internal::Watermark;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::weir::testing::IsOk;
using ::weir::testing::IsOkAndHolds;
using ::weir::testing::StatusIs;

constexpr std::chrono::seconds kDeadline{20};

bool is_log(const std::string& path) { return path.ends_with(".log") && !path.ends_with("spare.log"); }

Batch one(const std::string& key, std::string value = "value") {
  Batch batch;
  batch.put(key, std::move(value));
  return batch;
}

int log_syncs(const InterposedCalls& calls) {
  int count = 0;
  for (const std::string& call : calls.done()) {
    count += (call.starts_with("fdatasync") || call.starts_with("fsync")) && is_log(call) ? 1 : 0;
  }
  return count;
}

/// The log that was written last.
std::string log_in(const std::string& directory) {
  std::string last;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const std::string path = entry.path().string();
    if (is_log(path) && entry.file_size() > 0) last = std::max(last, path);
  }
  return last;
}

// ---- what is durable when

TEST(RocksDurabilityTest, FoldersAboveNewMetadataAreDurableOneByOne) {
  const TemporaryDirectory directory;
  InterposedCalls calls(directory.path());
  ASSERT_THAT(open_rocks_key_value(directory.path() + "/above/metadata").status(), IsOk());
  std::vector<std::string> done = calls.done();
  ASSERT_GE(done.size(), 4u);
  done.resize(4);
  EXPECT_THAT(done, ElementsAre("mkdir above", "fsync .", "mkdir above/metadata", "fsync above"));
}

TEST(RocksDurabilityTest, OnlyWhatIsDurableWaitsForTheDisk) {
  const TemporaryDirectory directory;
  InterposedCalls calls(directory.path());
  const auto map = open_rocks_key_value(directory.path());
  ASSERT_THAT(map.status(), IsOk());
  calls.clear();
  ASSERT_THAT((*map)->apply(one("a"), false), IsOk());
  EXPECT_EQ(log_syncs(calls), 0);
  ASSERT_THAT((*map)->apply(one("b"), true), IsOk());
  EXPECT_EQ(log_syncs(calls), 1);
  // The log itself is a new file: its name is durable too.
  EXPECT_GE(calls.count("fsync ."), 1);
  ASSERT_THAT((*map)->apply(one("c"), false), IsOk());
  ASSERT_THAT(sync_and_wait(**map), IsOk());
  EXPECT_EQ(log_syncs(calls), 2);
  ASSERT_THAT(sync_and_wait(**map), IsOk());
  ASSERT_THAT((*map)->apply({}, true), IsOk());
  EXPECT_EQ(log_syncs(calls), 2) << "nothing was changed since";
  // The last write to the log comes before its sync.
  const std::vector<std::string> done = calls.done();
  const auto last = [&](std::string_view name) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (done[i].starts_with(name) && is_log(done[i])) at = i;
    }
    return at;
  };
  EXPECT_LT(last("write"), last("fdatasync"));
}

TEST(RocksDurabilityTest, ThoseWhoSyncTogetherWaitOnce) {
  const TemporaryDirectory directory;
  constexpr int kCallers = 40;
  std::promise<void> begun;
  std::promise<void> may_go_on;
  std::atomic<int> blocked{0};
  std::atomic<bool> is_blocking{false};
  auto go_on = may_go_on.get_future().share();
  InterposedCalls calls(directory.path(), [&](const FileCall& call) {
    if (is_blocking && call.name == "fdatasync" && is_log(call.path) && blocked++ == 0) {
      begun.set_value();
      go_on.wait_for(kDeadline);
    }
    return 0;
  });
  const auto map = open_rocks_key_value(directory.path());
  ASSERT_THAT(map.status(), IsOk());
  calls.clear();
  is_blocking = true;
  std::vector<int> order;  // by the thread of the commits only, until all is done
  std::promise<void> all_done;
  const auto sync = [&](int number) {
    (*map)->sync([&, number](const Status& status) {
      EXPECT_THAT(status, IsOk());
      order.push_back(number);
      if (order.size() == kCallers + 1) all_done.set_value();
    });
  };
  ASSERT_THAT((*map)->apply(one("first"), false), IsOk());
  sync(0);
  ASSERT_EQ(begun.get_future().wait_for(kDeadline), std::future_status::ready);
  for (int i = 1; i <= kCallers; ++i) {
    ASSERT_THAT((*map)->apply(one(concat("key", i)), false), IsOk()) << "nobody waits for a sync but who asked for it";
    sync(i);
  }
  may_go_on.set_value();
  ASSERT_EQ(all_done.get_future().wait_for(kDeadline), std::future_status::ready);
  EXPECT_EQ(log_syncs(calls), 2);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(RocksDurabilityTest, AFailedSyncIsToldAndNothingIsCalledDurableAfterIt) {
  const TemporaryDirectory directory;
  {
    std::atomic<bool> fails = false;
    InterposedCalls calls(directory.path(), [&](const FileCall& call) {
      return fails && call.name == "fdatasync" && is_log(call.path) ? EIO : 0;
    });
    const auto map = open_rocks_key_value(directory.path());
    ASSERT_THAT(map.status(), IsOk());
    ASSERT_THAT((*map)->apply(one("before"), true), IsOk());
    fails = true;
    EXPECT_THAT((*map)->apply(one("lost"), true), StatusIs(ErrorCode::kIoError, HasSubstr(directory.path())));
    fails = false;
    // The system told of it once, and forgot it: a second sync would succeed and prove nothing.
    EXPECT_THAT((*map)->apply(one("after"), true), StatusIs(ErrorCode::kIoError));
    EXPECT_THAT((*map)->get("before"), IsOkAndHolds(Optional(std::string("value"))));
  }
  const auto again = open_rocks_key_value(directory.path());
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_THAT((*again)->get("before"), IsOkAndHolds(Optional(std::string("value"))));
}

TEST(RocksDurabilityTest, ALogThatCannotBeWrittenIsAnErrorNotAnAbort) {
  const TemporaryDirectory directory;
  std::atomic<bool> fails = false;
  InterposedCalls calls(directory.path(), [&](const FileCall& call) {
    return fails && call.name == "write" && is_log(call.path) ? EIO : 0;
  });
  {
    const auto map = open_rocks_key_value(directory.path());
    ASSERT_THAT(map.status(), IsOk());
    ASSERT_THAT((*map)->apply(one("before"), true), IsOk());
    fails = true;
    EXPECT_THAT((*map)->apply(one("lost"), false), StatusIs(ErrorCode::kIoError, HasSubstr("start the server again")));
    EXPECT_THAT(sync_and_wait(**map), StatusIs(ErrorCode::kIoError));
    fails = false;
    EXPECT_THAT((*map)->apply(one("after"), true), StatusIs(ErrorCode::kIoError)) << "it would follow a gap";
  }
  const auto again = open_rocks_key_value(directory.path());
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_THAT((*again)->get("before"), IsOkAndHolds(Optional(std::string("value"))));
  EXPECT_THAT((*again)->get("after"), IsOkAndHolds(std::nullopt));
}

// A record that is written in several pieces: if one is missing, none of the others follows.
TEST(RocksDurabilityTest, NothingFollowsAGapInTheLog) {
  const TemporaryDirectory directory;
  std::atomic<int> failures = 0;  // of the next writes
  InterposedCalls calls(directory.path(), [&](const FileCall& call) {
    return failures > 0 && call.name == "write" && is_log(call.path) && failures-- > 0 ? EIO : 0;
  });
  {
    const auto map = open_rocks_key_value(directory.path());
    ASSERT_THAT(map.status(), IsOk());
    ASSERT_THAT((*map)->apply(one("before"), true), IsOk());
    failures = 1;
    EXPECT_THAT((*map)->apply(one("lost", std::string(3 << 20, 'v')), false), StatusIs(ErrorCode::kIoError));
  }
  const auto again = open_rocks_key_value(directory.path());
  ASSERT_THAT(again.status(), IsOk());
  EXPECT_THAT((*again)->get("before"), IsOkAndHolds(Optional(std::string("value"))));
  EXPECT_THAT((*again)->get("lost"), IsOkAndHolds(std::nullopt));
}

TEST(GroupCommitTest, SettlesWhenNobodyAsksAndAtTheEnd) {
  std::promise<void> settled;
  std::atomic<int> settles{0};
  {
    internal::GroupCommit commits({.commit = [] { return Status::ok(); },
                                   .settle =
                                       [&] {
                                         if (settles++ == 0) settled.set_value();
                                       }});
    commits.ask([](const Status&) {});
    EXPECT_EQ(settled.get_future().wait_for(kDeadline), std::future_status::ready);
    commits.ask([](const Status&) {});
  }
  EXPECT_EQ(settles, 2);
}

// ---- damage

/// A database of some keys that were synced, closed; and copies of it with damage.
class RocksDamageTest : public ::testing::Test {
 protected:
  static constexpr int kKeys = 60;

  void SetUp() override {
    const auto map = open_rocks_key_value(original());
    ASSERT_THAT(map.status(), IsOk());
    for (int i = 0; i < kKeys; ++i)
      ASSERT_THAT((*map)->apply(one(concat("key", i), std::string(100, 'v')), false), IsOk());
    ASSERT_THAT(sync_and_wait(**map), IsOk());
  }
  [[nodiscard]] std::string original() const { return directory_.path() + "/original"; }

  /// With another boot's mark: the power may have failed.
  std::string copy(bool is_of_other_boot) {
    const std::string to = concat(directory_.path(), "/copy", ++copies_);
    fs::copy(original(), to);
    if (is_of_other_boot) {
      auto watermark = Watermark::open(to + "/watermark", "00000000-another-boot");
      EXPECT_THAT(watermark.status(), IsOk());
      EXPECT_THAT(watermark->write(watermark->sequence()), IsOk());
    }
    return to;
  }
  static void expect_refused(const std::string& directory) {
    const Bytes before = load_file(log_in(directory));
    EXPECT_THAT(open_rocks_key_value(directory),
                StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr(directory), HasSubstr("weir fsck --rebuild"))));
    EXPECT_EQ(load_file(log_in(directory)), before) << "what is damaged is left as it is";
    EXPECT_THAT(open_rocks_key_value(directory), StatusIs(ErrorCode::kCorrupt)) << "the second time, too";
  }
  static void expect_keys(const std::string& directory, int count) {
    const auto map = open_rocks_key_value(directory);
    ASSERT_THAT(map.status(), IsOk());
    for (int i = 0; i < count; ++i) {
      EXPECT_THAT((*map)->get(concat("key", i)), IsOkAndHolds(Optional(std::string(100, 'v')))) << i;
    }
  }

  TemporaryDirectory directory_;
  int copies_ = 0;
};

TEST_F(RocksDamageTest, AFlippedBitInTheLogIsFound) {
  for (const bool is_of_other_boot : {false, true}) {
    SCOPED_TRACE(is_of_other_boot ? "after a new start of the system" : "in the same boot");
    const std::size_t size = load_file(log_in(original())).size();
    ASSERT_GT(size, 6000U);
    for (const std::size_t at : {std::size_t{5}, size / 2 + 1, size - 1}) {
      SCOPED_TRACE(concat("byte ", at));
      const std::string directory = copy(is_of_other_boot);
      Bytes bytes = load_file(log_in(directory));
      bytes[at] ^= std::byte{4};
      save_file(log_in(directory), bytes);
      expect_refused(directory);
      bytes[at] ^= std::byte{4};
      save_file(log_in(directory), bytes);
      expect_keys(directory, kKeys);
      if (HasFailure()) return;
    }
  }
}

// Without a loss of power there is nothing torn: what was never synced is in the log, too.
TEST_F(RocksDamageTest, AFlippedBitInWhatWasNeverSyncedIsFoundInTheSameBoot) {
  const std::string directory = copy(false);
  {
    auto watermark = Watermark::open(directory + "/watermark");
    ASSERT_THAT(watermark.status(), IsOk());
    ASSERT_THAT(watermark->write(1), IsOk());
  }
  Bytes bytes = load_file(log_in(directory));
  bytes[bytes.size() / 2] ^= std::byte{1};
  save_file(log_in(directory), bytes);
  expect_refused(directory);
}

TEST_F(RocksDamageTest, AMissingOrCutLogIsFound) {
  for (const bool is_of_other_boot : {false, true}) {
    const std::string cut = copy(is_of_other_boot);
    fs::resize_file(log_in(cut), fs::file_size(log_in(cut)) - 150);
    expect_refused(cut);
    const std::string missing = copy(is_of_other_boot);
    fs::remove(log_in(missing));
    EXPECT_THAT(open_rocks_key_value(missing), StatusIs(ErrorCode::kCorrupt, HasSubstr("changes were made durable")));
    const std::string current = copy(is_of_other_boot);
    fs::remove(current + "/CURRENT");
    EXPECT_THAT(open_rocks_key_value(current), StatusIs(ErrorCode::kCorrupt, HasSubstr("CURRENT")));
  }
}

// Behind what was synced, a loss of power leaves any mixture of old and new sectors, and any length.
TEST_F(RocksDamageTest, WhatALossOfPowerToreIsNotDamage) {
  std::string torn_from;
  {
    const auto map = open_rocks_key_value(original());
    ASSERT_THAT(map.status(), IsOk());
    for (int i = kKeys; i < 2 * kKeys; ++i) {
      ASSERT_THAT((*map)->apply(one(concat("key", i), std::string(100, 'v')), i == kKeys + 10), IsOk());
    }
    torn_from = copy(true);  // of an open database, as a crash leaves it
  }
  const std::string log = log_in(torn_from);
  const Bytes whole = load_file(log);
  std::mt19937_64 random{std::random_device{}()};
  for (int round = 0; round < 4; ++round) {
    Bytes torn = whole;
    const std::size_t from = whole.size() * 2 / 3;  // keys up to kKeys + 10 are before it
    if (round == 0) torn.resize(from + 17);
    for (std::size_t at = from; round > 0 && at < torn.size(); at += 512) {
      if (random() % 2 == 0)
        std::fill(torn.begin() + static_cast<std::ptrdiff_t>(at),
                  torn.begin() + static_cast<std::ptrdiff_t>(std::min(at + 512, torn.size())), std::byte{0});
    }
    const std::string directory = concat(directory_.path(), "/torn", round);
    fs::copy(torn_from, directory);
    save_file(log_in(directory), torn);
    SCOPED_TRACE(round);
    expect_keys(directory, kKeys + 11);
    expect_keys(directory, kKeys + 11);
  }
}

TEST_F(RocksDamageTest, AKilledProcessMayLeaveItsLastRecordCutOff) {
  const std::string directory = copy(false);
  {
    auto watermark = Watermark::open(directory + "/watermark");
    ASSERT_THAT(watermark.status(), IsOk());
    ASSERT_THAT(watermark->write(watermark->sequence() - 1), IsOk());  // the last change was never synced
  }
  fs::resize_file(log_in(directory), fs::file_size(log_in(directory)) - 50);
  expect_keys(directory, kKeys - 1);
}

TEST(WatermarkTest, ATornWriteLeavesTheOneBefore) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/watermark";
  {
    auto watermark = Watermark::open(path, "boot");
    ASSERT_THAT(watermark.status(), IsOk());
    EXPECT_EQ(watermark->sequence(), 0U);
    EXPECT_FALSE(watermark->is_of_this_boot());
    ASSERT_THAT(watermark->write(7), IsOk());
    ASSERT_THAT(watermark->write(9), IsOk());
    EXPECT_TRUE(watermark->is_of_this_boot());
    EXPECT_THAT(Watermark::open(path), StatusIs(ErrorCode::kUnavailable));
  }
  const Bytes whole = load_file(path);
  EXPECT_EQ(Watermark::open(path, "boot")->sequence(), 9U);
  EXPECT_FALSE(Watermark::open(path, "other")->is_of_this_boot());
  EXPECT_FALSE(Watermark::open(path, "")->is_of_this_boot());
  Bytes torn = whole;
  torn[4096 + 60] ^= std::byte{1};
  save_file(path, torn);
  EXPECT_EQ(Watermark::open(path, "boot")->sequence(), 7U);
  torn[60] ^= std::byte{1};
  save_file(path, torn);
  EXPECT_THAT(Watermark::open(path, "boot"), StatusIs(ErrorCode::kCorrupt, HasSubstr(path)));
}

TEST(WatermarkTest, IsDurableWhenWritten) {
  const TemporaryDirectory directory;
  InterposedCalls calls(directory.path());
  auto watermark = Watermark::open(directory.path() + "/watermark");
  ASSERT_THAT(watermark.status(), IsOk());
  ASSERT_THAT(watermark->write(1), IsOk());
  EXPECT_THAT(calls.done(),
              ::testing::ElementsAre("open watermark", "fsync .", "pwrite watermark", "fdatasync watermark"));
}

// ---- a full disk

/// A small file system in memory.
class SmallDisk {
 public:
  explicit SmallDisk(int mebibytes) {
    is_mounted_ = ::mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, concat("size=", mebibytes, "m").c_str()) == 0;
  }
  ~SmallDisk() {
    if (is_mounted_) ::umount2(directory_.path().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool is_mounted() const { return is_mounted_; }
  [[nodiscard]] std::string path() const { return directory_.path(); }
  /// Leaves no byte.
  void fill() const {
    std::FILE* file = std::fopen((path() + "/filler").c_str(), "a");
    const std::array<char, 4096> page{};
    while (std::fwrite(page.data(), page.size(), 1, file) == 1 && std::fflush(file) == 0) {
    }
    std::fclose(file);
  }
  void free() const { fs::remove(path() + "/filler"); }

 private:
  TemporaryDirectory directory_;
  bool is_mounted_ = false;
};

TEST(RocksFullDiskTest, RefusesUntilThereIsSpaceAgainAndStillRemoves) {
  const SmallDisk disk(40);
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting is not allowed here";
  auto map = open_rocks_key_value(disk.path() + "/db");
  ASSERT_THAT(map.status(), IsOk());
  int known = 0;
  const auto put_until_full = [&] {
    for (int i = 0; i < 100000; ++i) {
      const Status status = (*map)->apply(one(concat("key", known), std::string(2000, 'v')), i % 64 == 0);
      if (!status.is_ok()) return status;
      ++known;
    }
    return Status::ok();
  };
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    for (int i = 0; i < 500; ++i, ++known)
      ASSERT_THAT((*map)->apply(one(concat("key", known), std::string(2000, 'v')), false), IsOk());
    disk.fill();
    ASSERT_THAT(put_until_full(), StatusIs(ErrorCode::kNoSpace, HasSubstr(disk.path())));
    EXPECT_THAT((*map)->apply(one(concat("key", known), std::string(2000, 'v')), true),
                StatusIs(ErrorCode::kNoSpace, HasSubstr("nothing was changed")));
    EXPECT_THAT((*map)->get(concat("key", known)), IsOkAndHolds(std::nullopt));
    EXPECT_THAT(sync_and_wait(**map), IsOk()) << "what is there can be made durable";
    for (int i = 0; i < 20; ++i) {
      Batch removal;
      removal.erase(concat("key", --known));
      removal.frees_room = true;
      EXPECT_THAT((*map)->apply(removal, true), IsOk());
    }
    disk.free();
    EXPECT_THAT((*map)->apply(one("new"), true), IsOk());
    Batch removal;
    removal.erase("new");
    EXPECT_THAT((*map)->apply(removal, true), IsOk());
  }
  // A server that is started while the disk is full says so, and can be started later.
  map->reset();
  disk.fill();
  if (const auto full = open_rocks_key_value(disk.path() + "/db"); !full.is_ok()) {
    EXPECT_THAT(full.status(), StatusIs(ErrorCode::kNoSpace));
  }
  disk.free();
  map = open_rocks_key_value(disk.path() + "/db");
  ASSERT_THAT(map.status(), IsOk());
  for (int i = 0; i < known; i += 37) {
    EXPECT_THAT((*map)->get(concat("key", i)), IsOkAndHolds(Optional(std::string(2000, 'v')))) << i;
  }
  EXPECT_THAT((*map)->get(concat("key", known)), IsOkAndHolds(std::nullopt));
}

// RocksDB cannot write out its memory, and stops; when there is space, the next change makes it go on.
TEST(RocksFullDiskTest, GoesOnAfterItCouldNotWriteOutItsMemory) {
  const TemporaryDirectory directory;
  std::atomic<bool> is_full{true};
  std::promise<void> failed;
  std::atomic<int> failures{0};
  InterposedCalls calls(directory.path(), [&](const FileCall& call) {
    if (!is_full || call.name != "write" || !call.path.ends_with(".sst")) return 0;
    if (failures++ == 0) failed.set_value();
    return ENOSPC;
  });
  const auto map = open_rocks_key_value(directory.path());
  ASSERT_THAT(map.status(), IsOk());
  int known = 0;
  const auto put = [&] { return (*map)->apply(one(concat("key", known), std::string(16000, 'v')), false); };
  Status status;
  while (failures == 0 && status.is_ok() && known < 1000) {
    status = put();
    if (status.is_ok()) ++known;
  }
  ASSERT_EQ(failed.get_future().wait_for(kDeadline), std::future_status::ready);
  // It is told soon after that.
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (status.is_ok() && std::chrono::steady_clock::now() < deadline) {
    status = put();
    if (status.is_ok()) ++known;
  }
  ASSERT_THAT(status, StatusIs(ErrorCode::kNoSpace, HasSubstr(directory.path())));
  EXPECT_THAT(put(), StatusIs(ErrorCode::kNoSpace)) << "still";
  is_full = false;
  EXPECT_THAT((*map)->apply(one("after"), true), IsOk());
  for (int i = 0; i < known; i += 7) {
    EXPECT_THAT((*map)->get(concat("key", i)), IsOkAndHolds(Optional(std::string(16000, 'v')))) << i;
  }
}

// The same where nothing can be mounted: allocation fails, and existing files cannot be extended.
TEST(RocksFullDiskTest, WithoutRoomAheadNothingIsChanged) {
  const TemporaryDirectory directory;
  std::atomic<bool> is_full{false};
  InterposedCalls calls(directory.path(),
                        [&](const FileCall& call) { return is_full && call.name == "fallocate" ? ENOSPC : 0; });
  const auto map = open_rocks_key_value(directory.path());
  ASSERT_THAT(map.status(), IsOk());
  ASSERT_THAT((*map)->apply(one("a"), true), IsOk());
  is_full = true;
  int taken = 0;
  Status status;
  while (status.is_ok() && taken < 100000) {
    status = (*map)->apply(one(concat("key", taken), std::string(4000, 'v')), false);
    if (status.is_ok()) ++taken;
  }
  EXPECT_THAT(status, StatusIs(ErrorCode::kNoSpace));
  EXPECT_THAT((*map)->get(concat("key", taken)), IsOkAndHolds(std::nullopt));
  Batch removal;
  removal.erase("a");
  removal.frees_room = true;
  EXPECT_THAT((*map)->apply(removal, true), IsOk());
  EXPECT_THAT((*map)->get("a"), IsOkAndHolds(std::nullopt));
  is_full = false;
  EXPECT_THAT((*map)->apply(one(concat("key", taken)), true), IsOk());
}

}  // namespace
}  // namespace weir::storage
