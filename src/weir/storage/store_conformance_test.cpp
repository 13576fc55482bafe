#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/storage/blocking.h>
#include <weir/storage/internal/store_conformance.h>

namespace weir::storage::internal {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::weir::testing::HasBytes;
using ::weir::testing::IsOk;
using ::weir::testing::StatusIs;

void StoreConformance::SetUp() {
  home_ = GetParam().make_home();
  open();
}

void StoreConformance::open(Offset capacity_bytes) {
  store_.reset();
  Result<std::unique_ptr<Store>> opened = home_->open(capacity_bytes);
  ASSERT_THAT(opened.status(), IsOk());
  store_ = std::move(*opened);
}

void StoreConformance::reopen() {
  if (GetParam().is_durable) open();
}

namespace {

using Bytes = std::vector<std::byte>;

/// As Each(byte), for megabytes.
MATCHER_P(IsAll, byte, "") {
  return ::testing::ExplainMatchResult(HasBytes(Bytes(arg.size(), byte)), arg, result_listener);
}

constexpr Offset kKiB = 1024;
constexpr Offset kMiB = 1024 * kKiB;
constexpr Offset kGiB = 1024 * kMiB;

Bytes random_bytes(std::mt19937_64& random, Offset count) {
  Bytes bytes(static_cast<std::size_t>(count));
  // Never zero, so that a hole is never taken for data.
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random() | 0x0101010101010101U;
    std::memcpy(&bytes[i], &bits, std::min(sizeof(bits), bytes.size() - i));
  }
  return bytes;
}

Offset below(std::mt19937_64& random, Offset limit) {
  return static_cast<Offset>(random() % static_cast<std::uint64_t>(limit));
}

/// Replayed with WEIR_TEST_SEED=<number>.
Status write(Store& store, SubfileId id, Offset offset, const Bytes& bytes, Offset file_end = 0) {
  const std::array pieces{WritePiece{offset, bytes}};
  return Blocking(store).write(id, pieces, file_end);
}

Bytes read(Store& store, SubfileId id, Offset offset, Offset count) {
  Bytes bytes(static_cast<std::size_t>(count), std::byte{0xAA});
  const std::array pieces{ReadPiece{offset, bytes}};
  EXPECT_THAT(Blocking(store).read(id, pieces), IsOk());
  return bytes;
}

SubfileInfo info(Store& store, SubfileId id) {
  const Result<SubfileInfo> answer = Blocking(store).info(id);
  EXPECT_THAT(answer.status(), IsOk());
  return answer.is_ok() ? *answer : SubfileInfo{};
}

Usage usage(Store& store) {
  const Result<Usage> answer = Blocking(store).usage();
  EXPECT_THAT(answer.status(), IsOk());
  return answer.is_ok() ? *answer : Usage{};
}

/// What a subfile should be: the plainest thing that can hold 2^50 bytes, mostly holes.
class Oracle {
 public:
  static constexpr Offset kBlock = 4 * kKiB;
  struct Range {
    Offset from = 0;
    Offset to = 0;
  };
  Offset length = 0;
  Offset file_end = 0;

  void write(Offset offset, const Bytes& bytes, Offset end) {
    for_parts(offset, static_cast<Offset>(bytes.size()), [&](Offset block, Offset within, Offset done, Offset count) {
      Bytes& held = blocks_.try_emplace(block, Bytes(kBlock)).first->second;
      std::copy_n(bytes.begin() + done, count, held.begin() + within);
      places_.insert(block * kBlock);
    });
    if (!bytes.empty()) length = std::max(length, offset + static_cast<Offset>(bytes.size()));
    file_end = std::max(file_end, end);
  }

  [[nodiscard]] Bytes read(Offset offset, Offset size) const {
    Bytes bytes(static_cast<std::size_t>(size));
    for_parts(offset, size, [&](Offset block, Offset within, Offset done, Offset count) {
      const auto held = blocks_.find(block);
      if (held != blocks_.end()) std::copy_n(held->second.begin() + within, count, bytes.begin() + done);
    });
    return bytes;
  }

  void truncate(Offset new_length, Offset end) {
    blocks_.erase(blocks_.upper_bound(new_length / kBlock), blocks_.end());
    if (const auto last = blocks_.find(new_length / kBlock); last != blocks_.end()) {
      std::fill(last->second.begin() + new_length % kBlock, last->second.end(), std::byte{0});
    }
    length = new_length;
    file_end = end;
  }

  void remove() {
    blocks_.clear();
    length = file_end = 0;
  }

  /// Ranges that were ever written, cut off since or not, with a block before and after each.
  [[nodiscard]] std::vector<Range> places() const {
    std::vector<Range> joined;
    for (const Offset place : places_) {
      const Range around{std::max<Offset>(place - kBlock, 0), place + 2 * kBlock};
      if (!joined.empty() && around.from <= joined.back().to) {
        joined.back().to = around.to;
      } else {
        joined.push_back(around);
      }
    }
    return joined;
  }

 private:
  template <typename Visit>
  static void for_parts(Offset offset, Offset size, Visit visit) {
    for (Offset done = 0; done < size;) {
      const Offset within = (offset + done) % kBlock;
      const Offset count = std::min(kBlock - within, size - done);
      visit((offset + done) / kBlock, within, done, count);
      done += count;
    }
  }
  std::map<Offset, Bytes> blocks_;
  std::set<Offset> places_;
};

/// Random operations on a few subfiles, on the store and on oracles alike.
class RandomRun {
 public:
  RandomRun(std::uint64_t seed, Offset far_offset)
      : random_(seed), bases_{0, 0, 0, 60 * kKiB, kMiB - kKiB, 3 * kMiB, 64 * kGiB - 3 * kKiB, far_offset - kMiB} {}

  void step(Store& store) {
    const SubfileId id{7 + random_() % 2, static_cast<std::uint32_t>(random_() % 3)};
    Oracle& oracle = oracles_[id];
    switch (random_() % 12) {
      case 0:
      case 1:
      case 2:
      case 3: return write_some(store, id, oracle);
      case 4:
      case 5: return write_mapped(store, id, oracle);
      case 6:
      case 7:
      case 8: return read_some(store, id, oracle);
      case 9: return truncate(store, id, oracle);
      case 10: return reserve(store, id);
      default:
        if (random_() % 4 == 0) remove(store, id);
    }
  }

  void compare_all(Store& store) {
    for (const auto& [id, oracle] : oracles_) {
      SCOPED_TRACE(concat("subfile ", id.file, ".", id.element));
      const SubfileInfo seen = info(store, id);
      EXPECT_EQ(seen.length, oracle.length);
      EXPECT_EQ(seen.file_end, oracle.file_end);
      for (const auto& [from, to] : oracle.places()) {
        ASSERT_THAT(read(store, id, from, to - from), HasBytes(oracle.read(from, to - from))) << "at " << from;
      }
    }
  }

  void sync_all(Store& store) {
    for (const auto& entry : oracles_) ASSERT_THAT(Blocking(store).sync(entry.first), IsOk());
  }

 private:
  Offset any_size() {
    switch (random_() % 8) {
      case 0: return 0;
      case 1: return 1 + below(random_, 300 * kKiB);
      case 2: return 1 + below(random_, 20 * kKiB);
      default: return 1 + below(random_, 600);
    }
  }
  Offset any_offset() {
    return bases_[random_() % bases_.size()] + below(random_, random_() % 2 == 0 ? 10 * kKiB : 600 * kKiB);
  }

  void write_some(Store& store, SubfileId id, Oracle& oracle) {
    Offset offset = any_offset();
    const Offset file_end = below(random_, kGiB);
    std::vector<Bytes> contents(1 + random_() % 4);
    std::vector<WritePiece> pieces;
    for (Bytes& bytes : contents) {
      bytes = random_bytes(random_, any_size());
      pieces.push_back({offset, bytes});
      oracle.write(offset, bytes, file_end);
      offset += static_cast<Offset>(bytes.size()) + below(random_, 9000);
    }
    std::shuffle(pieces.begin(), pieces.end(), random_);
    ASSERT_THAT(Blocking(store).write(id, pieces, file_end), IsOk());
  }

  void write_mapped(Store& store, SubfileId id, Oracle& oracle) {
    const Offset offset = any_offset();
    const Bytes bytes = random_bytes(random_, 1 + any_size());
    const Offset to = offset + static_cast<Offset>(bytes.size());
    const auto mapped = store.map(id, offset, to, true);
    ASSERT_THAT(mapped.status(), IsOk());
    if (!*mapped) return;
    ASSERT_EQ((*mapped)->size(), bytes.size());
    ASSERT_THAT(**mapped, HasBytes(oracle.read(offset, to - offset))) << "mapped at " << offset;
    std::ranges::copy(bytes, (*mapped)->begin());
    store.note_written(id, to, to / 2);
    oracle.write(offset, bytes, to / 2);
  }

  void read_some(Store& store, SubfileId id, const Oracle& oracle) {
    const std::array<Offset, 2> offsets{any_offset(), any_offset()};
    std::array<Bytes, 2> contents;
    std::vector<ReadPiece> pieces;
    for (std::size_t i = 0; i < 2; ++i) {
      contents[i].assign(static_cast<std::size_t>(any_size()), std::byte{0xAA});
      pieces.push_back({offsets[i], contents[i]});
    }
    ASSERT_THAT(Blocking(store).read(id, pieces), IsOk());
    for (std::size_t i = 0; i < 2; ++i) {
      const auto size = static_cast<Offset>(contents[i].size());
      ASSERT_THAT(contents[i], HasBytes(oracle.read(offsets[i], size))) << size << " bytes at " << offsets[i];
      const auto mapped = store.map(id, offsets[i], offsets[i] + size, false);
      ASSERT_THAT(mapped.status(), IsOk());
      if (!*mapped) continue;
      ASSERT_THAT(**mapped, HasBytes(contents[i])) << "mapped at " << offsets[i];
    }
  }

  void truncate(Store& store, SubfileId id, Oracle& oracle) {
    const Offset near = std::max<Offset>(oracle.length - below(random_, 20 * kKiB), 0);
    const Offset length = random_() % 4 == 0 ? any_offset() : near;
    const Offset file_end = below(random_, kGiB);
    ASSERT_THAT(Blocking(store).truncate(id, length, file_end), IsOk());
    oracle.truncate(length, file_end);
  }

  void reserve(Store& store, SubfileId id) {
    const Offset from = any_offset();
    ASSERT_THAT(Blocking(store).reserve(id, from, from + any_size()), IsOk());
  }

  void remove(Store& store, SubfileId id) {
    ASSERT_THAT(Blocking(store).remove(id), IsOk());
    oracles_[id].remove();
  }

  std::mt19937_64 random_;
  std::vector<Offset> bases_;
  std::map<SubfileId, Oracle> oracles_;
};

constexpr SubfileId kId{3, 1};

/// Ten times as many with STORAGE_MANY=1.
Offset many_subfiles(const StoreCase& store_case) {
  return store_case.many_subfiles * (std::getenv("STORAGE_MANY") != nullptr ? 10 : 1);
}

TEST_P(StoreConformance, RandomOperationsAgreeWithAPlainFile) {
  const std::uint64_t seed = testing::choose_seed();
  SCOPED_TRACE(concat("WEIR_TEST_SEED=", seed));
  RandomRun run{seed, GetParam().far_offset};
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 60 && !HasFatalFailure(); ++i) {
      SCOPED_TRACE(concat("round ", round, " step ", i));
      run.step(*store_);
    }
    run.compare_all(*store_);
    run.sync_all(*store_);
    if (GetParam().is_durable) {
      reopen();
      run.compare_all(*store_);
    }
    if (HasFailure()) return;
  }
}

TEST_P(StoreConformance, WhatWasNeverWrittenIsZeroAndTakesNoRoom) {
  EXPECT_THAT(read(*store_, kId, 5, 10000), IsAll(std::byte{0}));
  EXPECT_THAT(read(*store_, kId, GetParam().far_offset, 100), IsAll(std::byte{0}));
  const SubfileInfo seen = info(*store_, kId);
  EXPECT_EQ(seen.length, 0);
  EXPECT_EQ(seen.file_end, 0);
  EXPECT_EQ(seen.stored_bytes, 0);
  EXPECT_THAT(*Blocking(*store_).list(), IsEmpty());
  EXPECT_EQ(usage(*store_).subfiles, 0);
  EXPECT_THAT(Blocking(*store_).sync(kId), IsOk());
  EXPECT_THAT(Blocking(*store_).remove(kId), IsOk());
}

TEST_P(StoreConformance, EmptyWriteKeepsTheLengthButCountsTheEndOfTheFile) {
  ASSERT_THAT(write(*store_, kId, 5000, {}, 77), IsOk());
  ASSERT_THAT(Blocking(*store_).write(kId, {}, 78), IsOk());
  ASSERT_THAT(Blocking(*store_).write(kId, {}, 12), IsOk());
  EXPECT_EQ(info(*store_, kId).length, 0);
  EXPECT_EQ(info(*store_, kId).file_end, 78);
  ASSERT_THAT(Blocking(*store_).read(kId, {}), IsOk());
  ASSERT_THAT(Blocking(*store_).reserve(kId, 9, 9), IsOk());
  ASSERT_THAT(Blocking(*store_).sync(kId), IsOk());
  reopen();
  EXPECT_EQ(info(*store_, kId).length, 0);
  EXPECT_EQ(info(*store_, kId).file_end, 78);
}

TEST_P(StoreConformance, HolesReadAsZeroAndTakeNoRoom) {
  std::mt19937_64 random{1};
  const Bytes bytes = random_bytes(random, 100);
  ASSERT_THAT(write(*store_, kId, 0, bytes), IsOk());
  ASSERT_THAT(write(*store_, kId, 300 * kMiB, bytes), IsOk());
  EXPECT_THAT(read(*store_, kId, 100, kMiB), IsAll(std::byte{0}));
  EXPECT_THAT(read(*store_, kId, 300 * kMiB - 1000, 1000), IsAll(std::byte{0}));
  EXPECT_EQ(read(*store_, kId, 300 * kMiB, 100), bytes);
  EXPECT_EQ(info(*store_, kId).length, 300 * kMiB + 100);
  EXPECT_LT(info(*store_, kId).stored_bytes, 4 * kMiB);
  EXPECT_TRUE(!GetParam().has_capacity || usage(*store_).used_bytes < 4 * kMiB);  // otherwise others use the room too
}

TEST_P(StoreConformance, FarBytesAreLikeOthers) {
  std::mt19937_64 random{2};
  const Bytes bytes = random_bytes(random, 100 * kKiB);
  const Offset offset = GetParam().far_offset - 50 * kKiB;
  ASSERT_THAT(write(*store_, kId, offset, bytes, kMaxBytes), IsOk());
  ASSERT_THAT(Blocking(*store_).reserve(kId, offset, offset + 100), IsOk());
  ASSERT_THAT(Blocking(*store_).sync(kId), IsOk());
  reopen();
  EXPECT_EQ(read(*store_, kId, offset, 100 * kKiB), bytes);
  EXPECT_EQ(info(*store_, kId).length, offset + 100 * kKiB);
  EXPECT_EQ(info(*store_, kId).file_end, kMaxBytes);
  EXPECT_LT(info(*store_, kId).stored_bytes, 4 * kMiB);
  ASSERT_THAT(Blocking(*store_).truncate(kId, offset + 10, 5), IsOk());
  ASSERT_THAT(Blocking(*store_).truncate(kId, GetParam().far_offset, 6), IsOk());
  EXPECT_EQ(read(*store_, kId, offset, 10), Bytes(bytes.begin(), bytes.begin() + 10));
  EXPECT_THAT(read(*store_, kId, offset + 10, 100 * kKiB), IsAll(std::byte{0}));
}

TEST_P(StoreConformance, OffsetsOutOfRangeAreRefused) {
  const Bytes bytes(10);
  EXPECT_THAT(write(*store_, kId, -1, bytes), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(write(*store_, kId, kMaxBytes - 5, bytes), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(write(*store_, kId, 0, bytes, -1), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(Blocking(*store_).truncate(kId, -1, 0), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(Blocking(*store_).truncate(kId, 0, kMaxBytes + 1), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(Blocking(*store_).reserve(kId, 10, 5), StatusIs(ErrorCode::kOutOfRange));
  Bytes target(10);
  const std::array pieces{ReadPiece{-3, target}};
  EXPECT_THAT(Blocking(*store_).read(kId, pieces), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_EQ(info(*store_, kId).length, 0);
}

TEST_P(StoreConformance, GrowsPieceByPiece) {
  std::mt19937_64 random{3};
  Bytes all;
  for (Offset step = 1; all.size() < 9 * kMiB; step = std::min(2 * step, 700 * kKiB)) {
    const Bytes bytes = random_bytes(random, step);
    ASSERT_THAT(write(*store_, kId, static_cast<Offset>(all.size()), bytes), IsOk());
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(info(*store_, kId).length, static_cast<Offset>(all.size()));
  EXPECT_TRUE(read(*store_, kId, 0, static_cast<Offset>(all.size())) == all);
  ASSERT_THAT(Blocking(*store_).sync(kId), IsOk());
  reopen();
  EXPECT_TRUE(read(*store_, kId, 0, static_cast<Offset>(all.size())) == all);
}

TEST_P(StoreConformance, WhatWasCutOffDoesNotComeBack) {
  std::mt19937_64 random{4};
  for (const Offset size : {100 * kKiB, 3 * kMiB, 500 * kKiB}) {
    ASSERT_THAT(write(*store_, kId, 0, random_bytes(random, size)), IsOk());
    ASSERT_THAT(Blocking(*store_).truncate(kId, 5001, 1), IsOk());
    ASSERT_THAT(Blocking(*store_).truncate(kId, size, 2), IsOk());
    EXPECT_THAT(read(*store_, kId, 5001, size), IsAll(std::byte{0}));
    EXPECT_THAT(read(*store_, kId, 0, 5001), Not(Contains(std::byte{0})));
    EXPECT_EQ(info(*store_, kId).length, size);
    EXPECT_EQ(info(*store_, kId).file_end, 2);
    EXPECT_LT(info(*store_, kId).stored_bytes, 100 * kKiB);
  }
}

TEST_P(StoreConformance, ReserveTakesRoomAndKeepsContents) {
  std::mt19937_64 random{5};
  const Bytes bytes = random_bytes(random, 1000);
  ASSERT_THAT(write(*store_, kId, 500, bytes, 9), IsOk());
  ASSERT_THAT(Blocking(*store_).reserve(kId, 0, 5 * kMiB), IsOk());
  EXPECT_EQ(read(*store_, kId, 500, 1000), bytes);
  EXPECT_THAT(read(*store_, kId, 1500, kMiB), IsAll(std::byte{0}));
  EXPECT_EQ(info(*store_, kId).length, 1500);
  EXPECT_EQ(info(*store_, kId).file_end, 9);
  // Where the store counts its room, nothing need exist for it yet.
  EXPECT_GE(GetParam().has_capacity ? usage(*store_).used_bytes : info(*store_, kId).stored_bytes, 5 * kMiB);
}

TEST_P(StoreConformance, RemoveGivesRoomBack) {
  const Offset before = usage(*store_).used_bytes;
  ASSERT_THAT(write(*store_, kId, 0, Bytes(2 * kMiB, std::byte{1}), 5), IsOk());
  ASSERT_THAT(write(*store_, {3, 2}, 0, Bytes(100, std::byte{2})), IsOk());
  // Where the room is not the store's own, others use it too.
  const bool is_own = GetParam().has_capacity;
  EXPECT_TRUE(!is_own || usage(*store_).used_bytes >= before + 2 * kMiB);
  ASSERT_THAT(Blocking(*store_).remove(kId), IsOk());
  EXPECT_TRUE(!is_own || usage(*store_).used_bytes < before + kMiB);
  EXPECT_THAT(read(*store_, kId, 0, 100), IsAll(std::byte{0}));
  EXPECT_EQ(info(*store_, kId).file_end, 0);
  reopen();
  EXPECT_EQ(info(*store_, kId).length, 0);
  EXPECT_THAT(*Blocking(*store_).list(), ElementsAre(SubfileId{3, 2}));
  EXPECT_THAT(read(*store_, {3, 2}, 0, 100), IsAll(std::byte{2}));
}

TEST_P(StoreConformance, ListsAscending) {
  const std::vector<SubfileId> ids{{1, 0}, {1, 9}, {1, 10}, {2, 1}, {300, 0}, {~std::uint64_t{0}, ~std::uint32_t{0}}};
  for (const std::size_t i : {4U, 0U, 5U, 2U, 3U, 1U})
    ASSERT_THAT(write(*store_, ids[i], 0, Bytes(10, std::byte{1})), IsOk());
  EXPECT_EQ(*Blocking(*store_).list(), ids);
  EXPECT_EQ(usage(*store_).subfiles, static_cast<Offset>(ids.size()));
  for (const SubfileId id : ids) ASSERT_THAT(Blocking(*store_).sync(id), IsOk());
  reopen();
  EXPECT_EQ(*Blocking(*store_).list(), ids);
}

TEST_P(StoreConformance, AFullStoreSaysSoAndStaysUsable) {
  if (!GetParam().has_capacity) GTEST_SKIP() << "the store has no limit of its own";
  const Offset capacity = 4 * kMiB;
  open(capacity);
  EXPECT_EQ(usage(*store_).capacity_bytes, capacity);
  const Bytes bytes(static_cast<std::size_t>(kMiB / 2), std::byte{1});
  Offset written = 0;
  Status status;
  for (; written <= capacity && status.is_ok(); written += kMiB / 2) status = write(*store_, kId, written, bytes);
  EXPECT_THAT(status, StatusIs(ErrorCode::kNoSpace, HasSubstr(std::to_string(capacity))));
  EXPECT_THAT(Blocking(*store_).reserve({8, 8}, 0, capacity), StatusIs(ErrorCode::kNoSpace));
  EXPECT_LE(usage(*store_).used_bytes, capacity);
  EXPECT_THAT(read(*store_, kId, 0, kMiB), IsAll(std::byte{1}));
  // What has room already can be written again, and what is cut off can be used by others.
  EXPECT_THAT(write(*store_, kId, 0, bytes), IsOk());
  ASSERT_THAT(Blocking(*store_).truncate(kId, kMiB, 0), IsOk());
  EXPECT_THAT(write(*store_, {8, 8}, 0, bytes), IsOk());
  EXPECT_EQ(read(*store_, {8, 8}, 0, kMiB / 2), bytes);
}

TEST_P(StoreConformance, ReservedRoomCannotBeTakenByOthers) {
  if (!GetParam().has_capacity) GTEST_SKIP() << "the store has no limit of its own";
  open(4 * kMiB);
  ASSERT_THAT(Blocking(*store_).reserve(kId, 0, 3 * kMiB), IsOk());
  EXPECT_THAT(write(*store_, {8, 8}, 0, Bytes(2 * kMiB)), StatusIs(ErrorCode::kNoSpace));
  EXPECT_THAT(write(*store_, kId, 0, Bytes(3 * kMiB, std::byte{7})), IsOk());
  EXPECT_THAT(read(*store_, kId, 2 * kMiB, kMiB), IsAll(std::byte{7}));
}

TEST_P(StoreConformance, ManySubfiles) {
  const Offset count = many_subfiles(GetParam());
  for (Offset i = 0; i < count; ++i) {
    const SubfileId id{static_cast<std::uint64_t>(i), 0};
    ASSERT_THAT(write(*store_, id, 0, Bytes(20, static_cast<std::byte>(i % 251)), i), IsOk());
  }
  reopen();
  EXPECT_EQ(usage(*store_).subfiles, count);
  EXPECT_EQ(Blocking(*store_).list()->size(), static_cast<std::size_t>(count));
  for (Offset i = 0; i < count; ++i) {
    const SubfileId id{static_cast<std::uint64_t>(i), 0};
    ASSERT_EQ(info(*store_, id).file_end, i);
    ASSERT_THAT(read(*store_, id, 0, 20), IsAll(static_cast<std::byte>(i % 251)));
    ASSERT_THAT(Blocking(*store_).remove(id), IsOk());
  }
  EXPECT_EQ(usage(*store_).subfiles, 0);
}

}  // namespace
}  // namespace weir::storage::internal
