// Both ends of the protocol on one memory file: what the server does in a Region, a client sees in its MappedSubfile.

#include <weir/share/region.h>

#include <fcntl.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/share/life.h>
#include <weir/share/mapped_subfile.h>

namespace weir::share {
namespace {

using testing::IsOk;

struct RegionTest : ::testing::Test {
  void SetUp() override {
    auto made = Region::make(2 * kChunkBytes, Peers::kOwn);
    ASSERT_THAT(made, IsOk());
    region = std::move(*made);
    ASSERT_GE(region->descriptor(), 0);
    life = *Life::create();
    client = map();
  }
  [[nodiscard]] std::shared_ptr<MappedSubfile> map() const {
    return *MappedSubfile::map(region->descriptor(), *Lifeline::map(life->descriptor()), 1);
  }
  std::unique_ptr<Region> region;
  std::unique_ptr<Life> life;
  std::shared_ptr<MappedSubfile> client;
};

TEST_F(RegionTest, RoomThatTheServerTakesMayBeWritten) {
  using Touched = MappedSubfile::Touched;
  EXPECT_EQ(client->touched(0, kChunkBytes), Touched::kNone);
  region->take(0, kPageBytes);
  EXPECT_EQ(client->touched(0, kChunkBytes), Touched::kAll);
  EXPECT_FALSE(client->is_full(0, 1)) << "only whole chunks";
  region->take(0, kChunkBytes);
  EXPECT_TRUE(client->is_full(0, kChunkBytes));
  EXPECT_FALSE(client->is_full(0, kChunkBytes + 1));
  ASSERT_THAT(region->cut(10), IsOk());
  EXPECT_FALSE(client->is_full(0, 1));
  EXPECT_EQ(client->touched(0, 10), Touched::kAll) << "what is left is read";
}

TEST_F(RegionTest, WhatAClientPublishesTheServerSees) {
  region->take(0, kChunkBytes);
  ASSERT_TRUE(client->make_pages(0, kChunkBytes));
  std::memset(client->data(), 7, 100);
  client->publish(100, 1000);
  EXPECT_EQ(region->data()[99], std::byte{7});
  EXPECT_EQ(region->lengths().length, 100);
  EXPECT_EQ(region->lengths().file_end, 1000);
  region->raise_lengths({50, 2000});
  EXPECT_EQ(region->lengths().length, 100);
  EXPECT_EQ(region->lengths().file_end, 2000);
  region->set_lengths({10, 20});
  EXPECT_EQ(client->control().length, 10);
  EXPECT_EQ(client->control().file_end, 20);
}

TEST_F(RegionTest, LengthsThatCannotBeTrueDoNotCount) {
  for (const Offset nonsense : {Offset{-1}, region->mapped_bytes() + 1, kMaxBytes + 1}) {
    client->control().length = nonsense;
    EXPECT_EQ(region->lengths().length, 0) << nonsense;
  }
  client->control().file_end = kMaxBytes + 1;
  EXPECT_EQ(region->lengths().file_end, 0);
}

TEST_F(RegionTest, ClientsSeeFencesAndTheEnd) {
  EXPECT_FALSE(client->is_fenced() || client->is_gone());
  region->fence(true);
  EXPECT_TRUE(client->is_fenced());
  EXPECT_FALSE(client->is_gone());
  EXPECT_TRUE(map()->is_fenced()) << "mapped only now";
  region->fence(false);
  EXPECT_FALSE(client->is_fenced());
  region.reset();
  EXPECT_TRUE(client->is_gone());
  EXPECT_FALSE(client->is_fenced());
}

// Either the client sees the fence, or the server the byte: never neither.
TEST_F(RegionTest, NoWriteIsLostBetweenServerAndClient) {
  region->take(0, kChunkBytes);
  constexpr int kRounds = 2000;
  std::atomic<int> started{0};
  std::atomic<int> ended{0};
  int lost = 0;
  std::atomic_ref byte(*client->data());
  std::atomic_ref seen(*region->data());
  std::thread writer([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (started.load() < round) std::this_thread::yield();
      byte.store(static_cast<std::byte>(round % 255 + 1), std::memory_order_relaxed);
      client->publish(1, 1);
      const bool is_stale = client->is_fenced();
      ended.store(is_stale ? -round : round);
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    started.store(round);
    region->fence(true);
    const bool has_come = seen.load(std::memory_order_relaxed) == static_cast<std::byte>(round % 255 + 1);
    while (std::abs(ended.load()) < round) std::this_thread::yield();
    if (!has_come && ended.load() > 0) ++lost;
    region->fence(false);
  }
  writer.join();
  EXPECT_EQ(lost, 0);
}

TEST_F(RegionTest, OtherUsersWriteOnlyToSealedMemory) {
  const auto sealed = Region::make(kChunkBytes, Peers::kOthers);
  ASSERT_THAT(sealed, IsOk());
  for (const bool for_writing : {true, false}) {
    EXPECT_TRUE((*sealed)->can_be_shared(for_writing, Peers::kOthers));
    EXPECT_TRUE(region->can_be_shared(for_writing, Peers::kOwn));
  }
  EXPECT_TRUE(region->can_be_shared(false, Peers::kOthers));
  const int seals = fcntl(region->descriptor(), F_GET_SEALS);
  EXPECT_EQ(region->can_be_shared(true, Peers::kOthers), (seals & F_SEAL_SHRINK) != 0);
}

}  // namespace
}  // namespace weir::share
