#include <weir/share/mapped_subfile.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/share/life.h>

namespace weir::share {
namespace {

using weir::testing::IsOk;
using weir::testing::StatusIs;

struct MappedSubfileTest : ::testing::Test {
  MappedSubfileTest() {
    EXPECT_EQ(::ftruncate(writable, kDataStart + kChunkBytes), 0);
    EXPECT_THAT(life, IsOk());
    lifeline = *Lifeline::map((*life)->descriptor());
    const auto mapped = MappedSubfile::map(writable, lifeline, 1);
    EXPECT_THAT(mapped, IsOk());
    whole = *mapped;
    // As the store does it: one chunk, with room for all its pages.
    whole->control().mapped_bytes = kChunkBytes;
    whole->control().touched[0] = 1;
    whole->control().full[0] = 1;
  }
  ~MappedSubfileTest() override {
    ::close(writable);
    ::close(readable);
  }

  int writable = ::memfd_create("test", MFD_CLOEXEC);
  int readable = ::open(concat("/proc/self/fd/", writable).c_str(), O_RDONLY | O_CLOEXEC);
  Result<std::unique_ptr<Life>> life = Life::create();
  std::shared_ptr<Lifeline> lifeline;
  std::shared_ptr<MappedSubfile> whole;
};

TEST_F(MappedSubfileTest, OnlyFullChunksAreWritten) {
  EXPECT_TRUE(whole->is_full(0, kChunkBytes));
  EXPECT_FALSE(whole->is_full(0, kChunkBytes + 1));
  EXPECT_EQ(whole->touched(0, 10), MappedSubfile::Touched::kAll);
  EXPECT_EQ(whole->touched(kChunkBytes, kChunkBytes + 1), MappedSubfile::Touched::kNone);
  EXPECT_EQ(whole->touched(0, kChunkBytes + 1), MappedSubfile::Touched::kSome);
}

TEST_F(MappedSubfileTest, LongerOnesAreTheSameMemory) {
  const auto longer = whole->longer(4 * whole->room());
  ASSERT_THAT(longer, IsOk());
  EXPECT_GE((*longer)->room(), 4 * whole->room());
  (*longer)->data()[5] = std::byte{55};
  EXPECT_EQ(whole->data()[5], std::byte{55});
}

TEST_F(MappedSubfileTest, TheLastChunkCanBePreparedWhateverTheLength) {
  // Just longer than what is mapped, and not by a whole chunk.
  const Offset bytes = 5 * whole->room() + 3 * 4096 + 1;
  const Offset chunks = bytes / kChunkBytes + 1;
  ASSERT_EQ(::ftruncate(writable, kDataStart + chunks * kChunkBytes), 0);
  whole->control().mapped_bytes = chunks * kChunkBytes;
  whole->control().full[(chunks - 1) / 64] |= std::uint64_t{1} << ((chunks - 1) % 64);
  const auto longer = whole->longer(bytes);
  ASSERT_THAT(longer, IsOk());
  EXPECT_TRUE((*longer)->enter_pages(bytes - 200'000, bytes));
}

TEST_F(MappedSubfileTest, OfTwoEachPreparesWhatTheOtherHasNotClaimed) {
  EXPECT_TRUE(claim(whole->control(), 0));
  EXPECT_FALSE(claim(whole->control(), 0));
  EXPECT_TRUE(whole->make_pages(0, kChunkBytes));
  EXPECT_TRUE(whole->enter_pages(0, kChunkBytes));  // late, but all of it
  whole->data()[kChunkBytes - 1] = std::byte{1};
}

TEST_F(MappedSubfileTest, WhatOneHasMadeOthersOnlyEnter) {
  EXPECT_FALSE(is_made(whole->control(), 0));
  EXPECT_TRUE(whole->make_pages(0, kChunkBytes));
  EXPECT_TRUE(whole->enter_pages(0, kChunkBytes));
  EXPECT_TRUE(is_made(whole->control(), 0));
  whole->data()[kChunkBytes - 1] = std::byte{1};
  const auto other = MappedSubfile::map(writable, lifeline, 1);
  ASSERT_THAT(other, IsOk());
  EXPECT_TRUE((*other)->enter_pages(0, kChunkBytes));
  EXPECT_EQ((*other)->data()[kChunkBytes - 1], std::byte{1});
  // Hints end somewhere; chunks do not.
  EXPECT_FALSE(is_made(whole->control(), kClaimableChunks));
}

Offset memory_of(int file) {
  struct ::stat now {};
  EXPECT_EQ(::fstat(file, &now), 0);
  return Offset{now.st_blocks} * 512;
}

TEST_F(MappedSubfileTest, AFewBytesTakeNoWholeChunk) {
  const Offset before = memory_of(writable);
  ASSERT_TRUE(whole->make_pages(5000, 6000));
  whole->data()[5000] = std::byte{1};
  EXPECT_EQ(memory_of(writable), before + 4096);
  EXPECT_FALSE(is_made(whole->control(), 0));
}

TEST_F(MappedSubfileTest, AChunkThatIsNewIsWrittenByACall) {
  const std::vector<std::byte> bytes(kChunkBytes, std::byte{7});
  ASSERT_TRUE(whole->prefers_calls()) << "a memfd has no huge pages";
  EXPECT_FALSE(whole->write_new(1, std::span(bytes).first(4096))) << "no whole chunk";
  EXPECT_EQ(whole->data()[1], std::byte{0});
  EXPECT_TRUE(whole->write_new(0, bytes));
  EXPECT_EQ(std::memcmp(whole->data(), bytes.data(), bytes.size()), 0);
  EXPECT_TRUE(is_made(whole->control(), 0));
  EXPECT_FALSE(whole->write_new(0, bytes)) << "it exists now";
}

TEST_F(MappedSubfileTest, AMappingThatIsLongerOrManyStillKnowTheFile) {
  const std::vector<std::byte> bytes(kChunkBytes, std::byte{7});
  std::vector<std::shared_ptr<MappedSubfile>> many;
  for (int i = 0; i < 300; ++i) many.push_back(*MappedSubfile::map(writable, lifeline, 1));
  EXPECT_FALSE(many.back()->prefers_calls()) << "not so many descriptors";
  EXPECT_FALSE(many.back()->write_new(0, bytes));
  EXPECT_TRUE(many.back()->make_pages(0, kChunkBytes));
  EXPECT_TRUE(many.back()->enter_pages(0, kChunkBytes));
  many.clear();
  EXPECT_TRUE((*MappedSubfile::map(writable, lifeline, 1))->prefers_calls());
  EXPECT_TRUE((*whole->longer(4 * whole->room()))->prefers_calls());
}

TEST_F(MappedSubfileTest, EachThatMapsItBeginsElsewhere) {
  const auto begin = [&](const MappedSubfile& mapped) { return mapped.begin_of(100, 100 + 64 * 4096 + 7); };
  EXPECT_EQ(begin(*whole), 100);
  const auto second = MappedSubfile::map(writable, lifeline, 1);
  EXPECT_EQ(begin(**second), 100 + 32 * 4096);
  EXPECT_EQ(begin(**MappedSubfile::map(writable, lifeline, 1)), 100 + 16 * 4096);
  EXPECT_EQ(begin(**MappedSubfile::map(writable, lifeline, 1)), 100 + 48 * 4096);
  EXPECT_EQ(begin(**(*second)->longer(4 * whole->room())), 100 + 32 * 4096) << "the same client";
  EXPECT_EQ((*second)->begin_of(5, 5), 5);
  EXPECT_EQ((*second)->begin_of(5, 4000), 5);
}

TEST_F(MappedSubfileTest, MemoryForReadingIsReadAndNeverWritten) {
  const auto mapped = MappedSubfile::map(readable, lifeline, 1);
  ASSERT_THAT(mapped, IsOk());
  whole->data()[5] = std::byte{55};
  // Entering pages ahead must not try to write them.
  EXPECT_TRUE((*mapped)->enter_pages(0, kChunkBytes));
  EXPECT_EQ((*mapped)->data()[5], std::byte{55});
  EXPECT_EQ((*mapped)->touched(0, 10), MappedSubfile::Touched::kAll);
  EXPECT_FALSE((*mapped)->is_full(0, 10));
  EXPECT_FALSE((*(*mapped)->longer(4 * whole->room()))->is_full(0, 10));
}

TEST_F(MappedSubfileTest, OfTheLongestFilesJustSoMuchIsMapped) {
  const int endless = ::memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(endless, std::numeric_limits<off_t>::max()), 0);
  const auto mapped = MappedSubfile::map(endless, lifeline, 1);
  ASSERT_THAT(mapped, IsOk());
  EXPECT_EQ((*mapped)->room(), kMappableBytes);
  ::close(endless);
}

TEST_F(MappedSubfileTest, FilesTooShortForControlAreRefused) {
  const int tiny = ::memfd_create("test", MFD_CLOEXEC);
  EXPECT_THAT(MappedSubfile::map(tiny, lifeline, 1), StatusIs(ErrorCode::kCorrupt));
  ::close(tiny);
}

}  // namespace
}  // namespace weir::share
