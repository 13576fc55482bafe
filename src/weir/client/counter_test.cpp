// Counters that clients share: exact under contention, and gone when they should be.

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/testing/cluster.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::IsOkAndHolds;
using weir::testing::StatusIs;

class CounterTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!internal::kCanUseUcx && std::string(GetParam()) == "tcp") GTEST_SKIP() << internal::kWhyNoUcx;
    ClusterOptions options;
    options.transport = GetParam();
    options.servers = 2;
    cluster_.emplace(options);
  }
  std::optional<Cluster> cluster_;
};

TEST_P(CounterTest, IsOneNumberForAllClients) {
  const FileSystem a = cluster_->connect();
  const FileSystem b = cluster_->connect();
  const auto made = a.make_counter(100);
  ASSERT_THAT(made, IsOk());
  const auto found = b.counter(made->id());
  ASSERT_THAT(found, IsOk());
  EXPECT_THAT(found->fetch_add(5), IsOkAndHolds(100));
  EXPECT_THAT(made->fetch_add(-1), IsOkAndHolds(105));
  EXPECT_THAT(found->get(), IsOkAndHolds(104));
  EXPECT_THAT(made->set(7), IsOk());
  EXPECT_THAT(found->get(), IsOkAndHolds(7));
  EXPECT_THAT(made->fetch_add(kMaxBytes), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(found->get(), IsOkAndHolds(7));
}

// Clients and threads that share a client each take tickets; every ticket is taken once.
TEST_P(CounterTest, NoAdditionIsLostOrSeenTwice) {
  constexpr int kClients = 3;
  constexpr int kThreads = 2;
  constexpr int kTimes = 200;
  const FileSystem first = cluster_->connect();
  const auto counter = first.make_counter();
  ASSERT_THAT(counter, IsOk());
  std::vector<std::vector<Offset>> taken(kClients * kThreads);
  std::vector<std::thread> threads;
  std::vector<FileSystem> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(cluster_->connect());
  for (std::size_t i = 0; i < taken.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto mine = clients[i % kClients].counter(counter->id());
      ASSERT_THAT(mine, IsOk());
      for (int k = 0; k < kTimes; ++k) {
        const Result<Offset> ticket = mine->fetch_add(1);
        ASSERT_THAT(ticket, IsOk());
        taken[i].push_back(*ticket);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Offset> all;
  for (const auto& some : taken) {
    EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
    all.insert(all.end(), some.begin(), some.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<Offset> expected(kClients * kThreads * kTimes);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST_P(CounterTest, IsGoneWhenRemovedAndWhenAllHandlesAre) {
  const FileSystem a = cluster_->connect();
  const FileSystem b = cluster_->connect();
  std::optional<Counter> made = *a.make_counter();
  const std::uint64_t id = made->id();
  std::optional<Counter> found = *b.counter(id);
  made.reset();
  EXPECT_THAT(found->get(), IsOkAndHolds(0)) << "the other client still has it";
  found.reset();
  EXPECT_THAT(a.counter(id), StatusIs(ErrorCode::kNotFound, HasSubstr("removed")));

  const Counter removed = *a.make_counter();
  EXPECT_THAT(removed.remove(), IsOk());
  EXPECT_THAT(removed.get(), StatusIs(ErrorCode::kNotFound));
}

TEST_P(CounterTest, IsGoneWithTheLastClient) {
  const FileSystem watcher = cluster_->connect();
  std::uint64_t id = 0;
  {
    const FileSystem a = cluster_->connect();
    const Counter made = *a.make_counter();
    id = made.id();
  }
  EXPECT_THAT(watcher.counter(id), StatusIs(ErrorCode::kNotFound));
}

TEST_P(CounterTest, ARestartedServerKnowsNone) {
  const FileSystem fs = cluster_->connect();
  const Counter counter = *fs.make_counter(9);
  cluster_->stop(0);
  cluster_->start(0);
  EXPECT_THAT(counter.get(), StatusIs(ErrorCode::kNotFound, HasSubstr("started again")));
  EXPECT_THAT(counter.fetch_add(1), StatusIs(ErrorCode::kNotFound, HasSubstr("started again")));
}

INSTANTIATE_TEST_SUITE_P(Transports, CounterTest, ::testing::Values("local", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace weir::client
