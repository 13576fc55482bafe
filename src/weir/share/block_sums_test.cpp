#include <weir/share/block_sums.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weir::share {
namespace {

constexpr Offset kBlocks = 8;

/// A memory file as both ends map it.
struct BlockSumsTest : ::testing::Test {
  static constexpr std::size_t kBytes = static_cast<std::size_t>(kDataStart + kBlocks * kBlockBytes);
  BlockSumsTest() {
    EXPECT_NE(file, MAP_FAILED);
    EXPECT_FALSE(sums.begin_write(all));
    std::memset(data(0), 1, static_cast<std::size_t>(kBlocks * kBlockBytes));
    sums.end_write(all);
  }
  ~BlockSumsTest() override { ::munmap(file, kBytes); }

  std::byte* data(Offset offset) const { return static_cast<std::byte*>(file) + kDataStart + offset; }
  void seal() const {
    for (Offset block = 0; block < kBlocks; ++block) sums.seal(block);
  }
  std::optional<Offset> damaged() const { return sums.find_damage(all); }

  void* file = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const BlockSums sums{static_cast<std::byte*>(file), kBlocks* kBlockBytes};
  const BlockSet all = BlockSet::of(0, kBlocks* kBlockBytes);
};

TEST_F(BlockSumsTest, OneByteOfASealedBlockIsNoticed) {
  *data(3 * kBlockBytes + 17) = std::byte{2};
  EXPECT_FALSE(damaged()) << "nothing was sealed";
  seal();
  EXPECT_FALSE(damaged());
  *data(3 * kBlockBytes + 17) = std::byte{3};
  EXPECT_EQ(damaged(), 3);
  EXPECT_FALSE(sums.find_damage(BlockSet::of(0, 3 * kBlockBytes)));
  EXPECT_EQ(sums.find_damage(BlockSet::touching(3 * kBlockBytes + 5, 4 * kBlockBytes)), 3);
  *data(3 * kBlockBytes + 17) = std::byte{2};
  EXPECT_FALSE(damaged());
}

TEST_F(BlockSumsTest, DeclaredWritesAreNoDamage) {
  seal();
  const BlockSet blocks = BlockSet::of(kBlockBytes - 1, kBlockBytes + 1);
  ASSERT_FALSE(sums.begin_write(blocks));
  *data(kBlockBytes) = std::byte{5};
  EXPECT_FALSE(damaged());
  EXPECT_FALSE(sums.is_due(1)) << "somebody is writing";
  sums.seal(1);
  *data(kBlockBytes) = std::byte{6};
  sums.end_write(blocks);
  EXPECT_FALSE(damaged());
  EXPECT_TRUE(sums.is_due(0));
  EXPECT_TRUE(sums.is_due(1));
  EXPECT_FALSE(sums.is_due(2));
  seal();
  EXPECT_FALSE(sums.is_due(1));
  EXPECT_FALSE(damaged());
  *data(0) = std::byte{9};
  EXPECT_EQ(damaged(), 0);
}

TEST_F(BlockSumsTest, AWriteMustNotHideDamageThatItLeaves) {
  seal();
  *data(2 * kBlockBytes + 100) = std::byte{9};
  EXPECT_EQ(sums.begin_write(BlockSet::of(kBlockBytes, 3 * kBlockBytes - 1)), 2);
  EXPECT_FALSE(sums.is_due(1)) << "what was declared is not, after all";
  seal();
  EXPECT_EQ(damaged(), 2);
  EXPECT_EQ(sums.begin_write(BlockSet::touching(2 * kBlockBytes, 3 * kBlockBytes)), 2);
  const BlockSet whole = BlockSet::of(2 * kBlockBytes, 3 * kBlockBytes);
  EXPECT_FALSE(sums.begin_write(whole)) << "leaves nothing of it";
  sums.end_write(whole);
  seal();
  EXPECT_FALSE(damaged());
}

TEST_F(BlockSumsTest, AWriterThatDiesLeavesTheBlockUnverified) {
  seal();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_declared = !sums.begin_write(BlockSet::of(0, 1));
    ::_exit(is_declared ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  seal();
  *data(5) = std::byte{9};
  EXPECT_FALSE(damaged());
}

TEST_F(BlockSumsTest, ManyWritersOfABlockThatDieOverflowNothing) {
  seal();
  const BlockSet first = BlockSet::of(0, 1);
  for (int i = 0; i < 5000; ++i) ASSERT_FALSE(sums.begin_write(first));
  for (int i = 0; i < 5000; ++i) sums.end_write(first);
  EXPECT_FALSE(sums.is_due(0));
  seal();
  *data(5) = std::byte{9};
  EXPECT_FALSE(damaged());
}

TEST_F(BlockSumsTest, BytesWithoutWordsAreLeftAlone) {
  const BlockSet beyond = BlockSet::of(kSummedBytes - 1, kSummedBytes + 10 * kBlockBytes);
  EXPECT_EQ(beyond.begin(), kMostBlocks - 1);
  EXPECT_EQ(beyond.end(), kMostBlocks);
  const BlockSet far = BlockSet::of(kMaxBytes - 5, kMaxBytes);
  EXPECT_EQ(far.begin(), far.end());
  // Nor those that are not mapped here.
  EXPECT_FALSE(sums.begin_write(beyond));
  EXPECT_FALSE(sums.find_damage(beyond));
  sums.end_write(beyond);
  EXPECT_FALSE(sums.is_due(kBlocks));
}

TEST_F(BlockSumsTest, BlocksOfPiecesAreThoseThatHaveBytes) {
  BlockSet pieces(0, 4 * kBlockBytes);
  pieces.add(10, 20);
  pieces.add(2 * kBlockBytes, 2 * kBlockBytes + kBlockBytes / 2);
  pieces.add(2 * kBlockBytes + kBlockBytes / 2, 3 * kBlockBytes + 1);
  const auto state = [&](Offset block) { return std::pair(pieces.has(block), pieces.is_covered(block)); };
  EXPECT_EQ(state(0), std::pair(true, false));
  EXPECT_EQ(state(1), std::pair(false, false));
  EXPECT_EQ(state(2), std::pair(true, true));
  EXPECT_EQ(state(3), std::pair(true, false));
}

// One writer, readers and sealers in threads and another process: each write changes two bytes of a block, so that a
// checksum of a half-done write is wrong.
TEST_F(BlockSumsTest, NoFalseAlarmsAmongThreadsAndProcesses) {
  struct Shared {
    std::atomic<bool> is_over{false};
    std::atomic<std::uint64_t> alarms{0};
    std::atomic<std::uint64_t> writes{0};
  };
  void* const memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared& shared = *new (memory) Shared;
  constexpr std::uint64_t kWrites = 4000;
  // Writer i has bytes of its own in each block.
  const auto write = [&](Offset writer) {
    std::mt19937_64 random(static_cast<std::uint64_t>(writer));
    for (std::uint64_t i = 0; i < kWrites; ++i) {
      const Offset at = static_cast<Offset>(random() % 2) * kBlockBytes + writer * 256;
      const BlockSet blocks = BlockSet::of(at, at + 128);
      if (sums.begin_write(blocks)) {
        ++shared.alarms;
        continue;
      }
      std::memset(data(at), static_cast<int>(i), 64);
      std::memset(data(at) + 64, static_cast<int>(i + 1), 64);
      sums.end_write(blocks);
      ++shared.writes;
      if (i % 2 == 0) sums.seal(at / kBlockBytes);  // so that others verify when the next write begins
    }
  };
  const auto look = [&](bool seals) {
    while (!shared.is_over) {
      for (Offset block = 0; block < 2 && seals; ++block) sums.seal(block);
      if (sums.find_damage(BlockSet::of(0, 2 * kBlockBytes))) ++shared.alarms;
      std::this_thread::yield();
    }
  };
  const pid_t child = ::fork();
  if (child == 0) {
    write(0);
    ::_exit(0);
  }
  std::vector<std::thread> lookers;
  for (const bool seals : {true, true, false}) lookers.emplace_back(look, seals);
  std::thread writer(write, 1);
  writer.join();
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  shared.is_over = true;
  for (std::thread& looker : lookers) looker.join();
  EXPECT_EQ(shared.alarms, 0U);
  EXPECT_EQ(shared.writes, 2 * kWrites);
  seal();
  EXPECT_FALSE(damaged());
  *data(1000) = std::byte{77};
  EXPECT_EQ(damaged(), 0);
  ::munmap(memory, sizeof(Shared));
}

}  // namespace
}  // namespace weir::share
