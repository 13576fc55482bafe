#include <weir/storage/key_value.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/internal/temporary_directory.h>
#include <weir/base/testing.h>
#include <weir/base/text.h>

namespace weir::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::weir::testing::IsOk;
using ::weir::testing::IsOkAndHolds;
using ::weir::testing::StatusIs;
using ::weir::testing::TemporaryDirectory;

using Entries = std::map<std::string, std::string>;
using Keys = std::vector<std::string>;

Keys scan(KeyValue& map, std::string_view prefix, std::string_view after, std::size_t most = 1000000) {
  Keys keys;
  EXPECT_THAT(map.scan(prefix, after,
                       [&](std::string_view key, std::string_view) {
                         keys.emplace_back(key);
                         return keys.size() < most;
                       }),
              IsOk());
  return keys;
}

Entries all_entries(KeyValue& map) {
  Entries entries;
  EXPECT_THAT(
      map.scan("", "",
               [&](std::string_view key, std::string_view value) { return entries.emplace(key, value).second; }),
      IsOk());
  return entries;
}

Status put(KeyValue& map, std::string key, std::string value, bool durable = false) {
  Batch batch;
  batch.put(std::move(key), std::move(value));
  return map.apply(batch, durable);
}

/// The parameter: whether it is RocksDB.
class KeyValueTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { open(); }
  void open() {
    map_.reset();
    if (!GetParam()) {
      map_ = make_memory_key_value();
      return;
    }
    auto opened = open_rocks_key_value(directory_.path() + "/db");
    ASSERT_THAT(opened.status(), IsOk());
    map_ = std::move(*opened);
  }
  void reopen() {
    if (GetParam()) open();
  }

  TemporaryDirectory directory_;
  std::unique_ptr<KeyValue> map_;
};

INSTANTIATE_TEST_SUITE_P(All, KeyValueTest, ::testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "Rocks" : "Memory"; });

TEST_P(KeyValueTest, GetsWhatWasPut) {
  const std::string key{"a\0\xFF/", 4};
  const std::string value{"\0\n", 2};
  EXPECT_THAT(map_->get(key), IsOkAndHolds(std::nullopt));
  ASSERT_THAT(put(*map_, key, value), IsOk());
  ASSERT_THAT(put(*map_, "empty", "", true), IsOk());
  EXPECT_THAT(map_->get(key), IsOkAndHolds(Optional(value)));
  EXPECT_THAT(map_->get("empty"), IsOkAndHolds(Optional(std::string{})));
  reopen();
  EXPECT_THAT(map_->get(key), IsOkAndHolds(Optional(value)));
}

TEST_P(KeyValueTest, AppliesABatchInOrder) {
  ASSERT_THAT(put(*map_, "old", "1"), IsOk());
  Batch batch;
  batch.put("a", "1");
  batch.erase("a");
  batch.erase("b");
  batch.put("b", "2");
  batch.erase("old");
  batch.erase("never there");
  ASSERT_THAT(map_->apply(batch, false), IsOk());
  ASSERT_THAT(map_->apply({}, true), IsOk());
  EXPECT_EQ(all_entries(*map_), (Entries{{"b", "2"}}));
}

TEST_P(KeyValueTest, ScansAPrefixInOrderOfUnsignedBytes) {
  const std::string highest = "d\xFF";
  for (const std::string& key : Keys{"d/b", highest, "d/a", "e", "d", "c", "d/a\x01"})
    ASSERT_THAT(put(*map_, key, key), IsOk());
  EXPECT_THAT(scan(*map_, "d", ""), ElementsAre("d", "d/a", "d/a\x01", "d/b", highest));
  EXPECT_THAT(scan(*map_, "d/", ""), ElementsAre("d/a", "d/a\x01", "d/b"));
  EXPECT_THAT(scan(*map_, "d", "d"), ElementsAre("d/a", "d/a\x01", "d/b", highest));
  EXPECT_THAT(scan(*map_, "d", "d/a"), ElementsAre("d/a\x01", "d/b", highest));
  EXPECT_THAT(scan(*map_, "d", "d/aa"), ElementsAre("d/b", highest));
  EXPECT_THAT(scan(*map_, "d", "", 2), ElementsAre("d", "d/a"));
  EXPECT_THAT(scan(*map_, "d", highest), IsEmpty());
  EXPECT_THAT(scan(*map_, "x", ""), IsEmpty());
  EXPECT_THAT(scan(*map_, "c", "e"), IsEmpty());
  EXPECT_THAT(scan(*map_, "", "d/b"), ElementsAre(highest, "e"));
}

TEST_P(KeyValueTest, RandomBatchesAgreeWithAPlainMap) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(concat("seed ", seed));
  std::mt19937_64 random{seed};
  Entries expected;
  for (int round = 0; round < 200; ++round) {
    Batch batch;
    for (std::uint64_t i = random() % 20; i > 0; --i) {
      const std::string key = concat(random() % 3, "/", random() % 50);
      if (random() % 3 == 0) {
        batch.erase(key);
        expected.erase(key);
      } else {
        batch.put(key, std::string(random() % 300, static_cast<char>(random())));
        expected[key] = *batch.changes.back().value;
      }
    }
    ASSERT_THAT(map_->apply(batch, round % 50 == 0), IsOk());
    if (round % 60 == 59) reopen();
    ASSERT_EQ(all_entries(*map_), expected);
  }
}

TEST(RocksKeyValueTest, AnUnusableDirectoryIsNamed) {
  const std::string directory = "/proc/weir-no-such-directory/db";
  EXPECT_THAT(open_rocks_key_value(directory), StatusIs(ErrorCode::kIoError, ::testing::HasSubstr(directory)));
}

TEST(RocksKeyValueTest, OneProcessAtATime) {
  const TemporaryDirectory directory;
  const auto first = open_rocks_key_value(directory.path() + "/db");
  ASSERT_THAT(first.status(), IsOk());
  EXPECT_THAT(open_rocks_key_value(directory.path() + "/db"),
              StatusIs(ErrorCode::kUnavailable, ::testing::HasSubstr("locked")));
}

/// Applies pairs of keys until it is killed, and notes in a file how many it was told are there.
void apply_until_killed(const std::string& directory) {
  const int note = open((directory + "/count").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  auto map = open_rocks_key_value(directory + "/db");
  if (note < 0 || !map.is_ok()) std::_Exit(1);
  std::thread killer{[] {
    std::this_thread::sleep_for(std::chrono::milliseconds{5 + std::random_device{}() % 100});
    ::raise(SIGKILL);
  }};
  for (std::int64_t i = 0;; ++i) {
    Batch batch;
    batch.put(concat("a", i), std::string(500, 'x'));
    batch.put(concat("b", i), "y");
    if (i > 0) batch.erase(concat("a", i - 1));
    const std::int64_t count = i + 1;
    if (!(*map)->apply(batch, false).is_ok() || pwrite(note, &count, sizeof count, 0) != sizeof count) std::_Exit(1);
  }
}

TEST(RocksKeyValueDeathTest, AKilledProcessLosesNothingThatWasApplied) {
  // The child is this program run again, since RocksDB's threads do not survive fork(); it finds the directory by this
  // variable.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* variable = "WEIR_TEST_KILLED_DIRECTORY";
  const bool is_child = std::getenv(variable) != nullptr;
  const TemporaryDirectory own;
  const std::string directory = is_child ? std::getenv(variable) : own.path() + "/";
  ASSERT_EQ(setenv(variable, directory.c_str(), 1), 0);
  EXPECT_EXIT(apply_until_killed(directory), ::testing::KilledBySignal(SIGKILL), "");
  ASSERT_EQ(unsetenv(variable), 0);

  std::int64_t count = 0;
  const int note = open((directory + "/count").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(note, 0);
  (void)!pread(note, &count, sizeof count, 0);  // nothing there: killed before the first
  close(note);
  const auto map = open_rocks_key_value(directory + "/db");
  ASSERT_THAT(map.status(), IsOk());
  const auto known = static_cast<std::int64_t>(scan(**map, "b", "").size());
  EXPECT_TRUE(known == count || known == count + 1) << known << " there, told of " << count;
  for (std::int64_t i = 0; i < known; ++i)
    EXPECT_THAT((*map)->get(concat("b", i)), IsOkAndHolds(Optional(std::string{"y"})));
  // Of the batches every one is whole: the last "a", and no other.
  if (known > 0) {
    EXPECT_THAT(scan(**map, "a", ""), ElementsAre(concat("a", known - 1)));
  }
}

}  // namespace
}  // namespace weir::storage
