#include <weir/net/internal/ring.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>

namespace weir::net::internal {
namespace {

using testing::IsOk;
using testing::StatusIs;

/// Both ends in one process, each with a mapping of its own.
struct Pair {
  Pair() {
    auto made = RingMemory::create();
    EXPECT_THAT(made, IsOk());
    ours = std::move(*made);
    auto adopted = RingMemory::adopt(Descriptor(::dup(ours->descriptor())));
    EXPECT_THAT(adopted, IsOk());
    theirs = std::move(*adopted);
    writer.emplace(ours->control(0), ours->bytes(0));
    reader.emplace(theirs->control(0), theirs->bytes(0));
  }
  bool write(std::span<const std::byte> bytes, bool is_last = true) {
    std::byte* to = writer->reserve(bytes.size());
    if (to == nullptr) return false;
    std::memcpy(to, bytes.data(), bytes.size());
    writer->publish(bytes.size(), is_last);
    return true;
  }

  std::optional<RingMemory> ours, theirs;
  std::optional<RingWriter> writer;
  std::optional<RingReader> reader;
};

std::vector<std::byte> pattern(std::size_t size, std::uint32_t seed) {
  std::vector<std::byte> bytes(size);
  std::minstd_rand random(seed + 1);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(RingTest, RecordsOfAllSizesComeInOrderManyTimesAround) {
  Pair pair;
  std::thread writing([&] {
    std::minstd_rand random(1);
    for (std::uint32_t i = 0; i < 2000; ++i) {
      const auto bytes = pattern(random() % (kMostRecordBytes + 1), i);
      while (!pair.write(bytes, i % 3 != 0)) std::this_thread::yield();
    }
  });
  std::minstd_rand random(1);
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const auto expected = pattern(random() % (kMostRecordBytes + 1), i);
    auto record = pair.reader->next();
    for (; record.is_ok() && !record->has_value(); record = pair.reader->next()) std::this_thread::yield();
    ASSERT_THAT(record, IsOk());
    const RingReader::Record& it = **record;
    EXPECT_EQ(it.is_last, i % 3 != 0);
    ASSERT_TRUE(std::equal(it.bytes.begin(), it.bytes.end(), expected.begin(), expected.end()));
    pair.reader->release();
  }
  writing.join();
  EXPECT_FALSE(pair.reader->next()->has_value());
}

TEST(RingTest, AFullRingHasNoRoomUntilSomethingIsRead) {
  Pair pair;
  const auto bytes = pattern(kMostRecordBytes, 1);
  std::size_t count = 0;
  while (pair.write(bytes)) ++count;
  EXPECT_GE(count, 4u);
  EXPECT_LE(count * kMostRecordBytes, kRingBytes);
  EXPECT_FALSE(pair.reader->takes_wait());
  EXPECT_TRUE(pair.writer->wait_for_room());
  ASSERT_TRUE(pair.reader->next()->has_value());
  pair.reader->release();
  EXPECT_TRUE(pair.reader->takes_wait());
  EXPECT_FALSE(pair.reader->takes_wait());
  EXPECT_FALSE(pair.writer->wait_for_room());
  EXPECT_TRUE(pair.write(bytes));
}

TEST(RingTest, SleepingReaderIsWokenOnce) {
  Pair pair;
  EXPECT_TRUE(pair.reader->sleep());
  ASSERT_TRUE(pair.write(pattern(10, 1)));
  EXPECT_TRUE(pair.writer->takes_sleep());
  EXPECT_FALSE(pair.writer->takes_sleep());
  EXPECT_FALSE(pair.reader->sleep()) << "there is something to read";
}

TEST(RingTest, WhatCannotBeIsAnError) {
  {
    Pair pair;
    pair.ours->control(0).written.store(kRingBytes + 64);
    EXPECT_THAT(pair.reader->next(), StatusIs(ErrorCode::kCorrupt));
  }
  for (const std::uint32_t length : {std::uint32_t{kMostRecordBytes + 1}, 57u, 0xffffffffu}) {
    Pair pair;
    std::memcpy(pair.ours->bytes(0), &length, sizeof length);
    pair.ours->control(0).written.store(64);  // room for 56
    EXPECT_THAT(pair.reader->next(), StatusIs(ErrorCode::kCorrupt)) << length;
  }
  Pair pair;
  ASSERT_TRUE(pair.write(pattern(10, 1)));
  pair.ours->control(0).read.store(1 << 20);  // has read what was never written: no room, but nothing breaks
  std::size_t written = 0;
  while (pair.write(pattern(kMostRecordBytes, 1)) && written < 2 * kRingBytes) written += kMostRecordBytes;
  EXPECT_LT(written, 2 * kRingBytes);
}

TEST(RingTest, MemoryThatCouldShrinkIsRefused) {
  Descriptor open_ended(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open_ended.get(), 4096 + 2 * kRingBytes), 0);
  EXPECT_THAT(RingMemory::adopt(std::move(open_ended)), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(RingMemory::adopt(Descriptor(::dup(0))), StatusIs(ErrorCode::kCorrupt));
}

}  // namespace
}  // namespace weir::net::internal
