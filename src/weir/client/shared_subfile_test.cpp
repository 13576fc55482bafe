#include <weir/client/internal/shared_subfile.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/base/testing.h>
#include <weir/base/text.h>
#include <weir/server/internal/life.h>

namespace weir::client::internal {
namespace {

using weir::testing::IsOk;
using weir::testing::StatusIs;

struct MappedSubfileTest : ::testing::Test {
  MappedSubfileTest() {
    EXPECT_EQ(::ftruncate(writable, storage::kDataStart + storage::kChunkBytes), 0);
    EXPECT_THAT(life, IsOk());
    lifeline = *server::Lifeline::map((*life)->descriptor());
    const auto mapped = MappedSubfile::map(writable, lifeline, 1);
    EXPECT_THAT(mapped, IsOk());
    whole = *mapped;
    // As the store does it: one chunk, with room for all its pages.
    whole->control().mapped_bytes = storage::kChunkBytes;
    whole->control().touched[0] = 1;
    whole->control().full[0] = 1;
  }
  ~MappedSubfileTest() override {
    ::close(writable);
    ::close(readable);
  }

  int writable = ::memfd_create("test", MFD_CLOEXEC);
  int readable = ::open(concat("/proc/self/fd/", writable).c_str(), O_RDONLY | O_CLOEXEC);
  Result<std::unique_ptr<server::internal::Life>> life = server::internal::Life::create();
  std::shared_ptr<server::Lifeline> lifeline;
  std::shared_ptr<MappedSubfile> whole;
};

TEST_F(MappedSubfileTest, OnlyFullChunksAreWritten) {
  EXPECT_TRUE(whole->is_full(0, storage::kChunkBytes));
  EXPECT_FALSE(whole->is_full(0, storage::kChunkBytes + 1));
  EXPECT_EQ(whole->touched(0, 10), MappedSubfile::Touched::kAll);
  EXPECT_EQ(whole->touched(storage::kChunkBytes, storage::kChunkBytes + 1), MappedSubfile::Touched::kNone);
  EXPECT_EQ(whole->touched(0, storage::kChunkBytes + 1), MappedSubfile::Touched::kSome);
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
  const Offset chunks = bytes / storage::kChunkBytes + 1;
  ASSERT_EQ(::ftruncate(writable, storage::kDataStart + chunks * storage::kChunkBytes), 0);
  whole->control().mapped_bytes = chunks * storage::kChunkBytes;
  whole->control().full[(chunks - 1) / 64] |= std::uint64_t{1} << ((chunks - 1) % 64);
  const auto longer = whole->longer(bytes);
  ASSERT_THAT(longer, IsOk());
  EXPECT_TRUE((*longer)->prepare(bytes - 200'000, bytes));
}

TEST_F(MappedSubfileTest, OfTwoEachPreparesWhatTheOtherHasNotClaimed) {
  EXPECT_TRUE(storage::claim(whole->control(), 0));
  EXPECT_FALSE(storage::claim(whole->control(), 0));
  EXPECT_TRUE(whole->prepare(0, storage::kChunkBytes));  // late, but all of it
  whole->data()[storage::kChunkBytes - 1] = std::byte{1};
}

TEST_F(MappedSubfileTest, MemoryForReadingIsReadAndNeverWritten) {
  const auto mapped = MappedSubfile::map(readable, lifeline, 1);
  ASSERT_THAT(mapped, IsOk());
  whole->data()[5] = std::byte{55};
  // Entering pages ahead must not try to write them.
  EXPECT_TRUE((*mapped)->prepare(0, storage::kChunkBytes));
  EXPECT_EQ((*mapped)->data()[5], std::byte{55});
  EXPECT_EQ((*mapped)->touched(0, 10), MappedSubfile::Touched::kAll);
  EXPECT_FALSE((*mapped)->is_full(0, 10));
  EXPECT_FALSE((*(*mapped)->longer(4 * whole->room()))->is_full(0, 10));
}

TEST_F(MappedSubfileTest, FilesTooShortForControlAreRefused) {
  const int tiny = ::memfd_create("test", MFD_CLOEXEC);
  EXPECT_THAT(MappedSubfile::map(tiny, lifeline, 1), StatusIs(ErrorCode::kCorrupt));
  ::close(tiny);
}

}  // namespace
}  // namespace weir::client::internal
