#include <weir/base/buffer_pool.h>

#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(BufferPoolTest, TakesTheSameMemoryAgain) {
  BufferPool pool(1 << 20);
  const std::byte* first = nullptr;
  {
    const BufferPool::Buffer buffer = pool.take(5000);
    EXPECT_EQ(buffer.size(), 5000U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kPageBytes, 0U);
    first = buffer.data();
    EXPECT_EQ(pool.kept_bytes(), 0U);
  }
  EXPECT_EQ(pool.kept_bytes(), 8192U);
  EXPECT_EQ(pool.take(8000).data(), first) << "as many pages";
  const BufferPool::Buffer longer = pool.take(9000);
  EXPECT_NE(longer.data(), first);
}

TEST(BufferPoolTest, CapacitiesAreRoundedUpByAQuarterAtMost) {
  for (std::size_t bytes = 1; bytes < std::size_t{1} << 32; bytes += bytes / 3 + 1) {
    const std::size_t capacity = BufferPool::capacity_for(bytes);
    const std::size_t unit = bytes < kHugePageBytes ? kPageBytes : kHugePageBytes;
    ASSERT_GE(capacity, bytes);
    ASSERT_EQ(capacity % unit, 0U);
    ASSERT_EQ(capacity % (capacity < kHugePageBytes ? kPageBytes : kHugePageBytes), 0U) << bytes;
    ASSERT_LE(capacity - bytes, std::max(unit, bytes / 4));
    ASSERT_EQ(BufferPool::capacity_for(capacity), capacity) << "a capacity is one of its own";
  }
}

TEST(BufferPoolTest, KeepsTheLastUsedWithinTheLimit) {
  constexpr std::size_t kBytes = 64 << 10;
  BufferPool pool(3 * kBytes);
  std::vector<BufferPool::Buffer> taken;
  std::vector<const std::byte*> places;
  for (int i = 0; i < 5; ++i) {
    taken.push_back(pool.take(kBytes));
    places.push_back(taken.back().data());
  }
  for (BufferPool::Buffer& buffer : taken) buffer = {};
  EXPECT_EQ(pool.kept_bytes(), 3 * kBytes);
  const BufferPool::Buffer last = pool.take(kBytes);
  EXPECT_EQ(last.data(), places[4]);
  // One that is longer than all that may be kept is not.
  { const BufferPool::Buffer long_one = pool.take(4 * kBytes); }
  EXPECT_EQ(pool.kept_bytes(), 2 * kBytes);
  // Many small ones push out what was used before them.
  for (int i = 0; i < 200; ++i) taken.push_back(pool.take(1));
  taken.clear();
  EXPECT_LE(pool.kept_bytes(), 3 * kBytes);
}

TEST(BufferPoolTest, BuffersOutliveThePoolAndMayLeak) {
  std::optional<BufferPool> pool(1 << 20);
  BufferPool::Buffer buffer = pool->take(100);
  BufferPool::Buffer moved = std::move(buffer);
  EXPECT_FALSE(buffer);  // NOLINT: moved from on purpose
  EXPECT_TRUE(moved);
  pool.reset();
  moved.data()[99] = std::byte{1};
  moved = {};
  EXPECT_FALSE(moved);
}

TEST(BufferPoolTest, NoMemoryIsNoBuffer) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end programs that ask for so much";
#endif
  BufferPool pool(1 << 20);
  EXPECT_FALSE(pool.try_take(std::size_t{1} << 62));
  EXPECT_TRUE(pool.try_take(1));
}

TEST(BufferPoolTest, ThreadsDoNotShareABuffer) {
  BufferPool pool(1 << 20);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 2000; ++i) {
        const BufferPool::Buffer buffer = pool.take(static_cast<std::size_t>(4096 * (1 + i % 3)));
        buffer.data()[0] = static_cast<std::byte>(t);
        std::this_thread::yield();
        ASSERT_EQ(buffer.data()[0], static_cast<std::byte>(t));
      }
    });
  }
}

}  // namespace
}  // namespace weir
