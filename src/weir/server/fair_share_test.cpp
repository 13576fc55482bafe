#include <weir/server/internal/fair_share.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/layout/testing/generate.h>
#include <weir/server/internal/buffers.h>

namespace weir::server::internal {
namespace {

struct Given {
  net::PeerId peer;
  std::size_t cost;
};

/// Asks for shares, and notes who gets them in which order.
class ShareTest : public ::testing::Test {
 protected:
  void ask(net::PeerId peer, std::size_t cost) {
    share.ask(peer, cost, [this, peer, cost] {
      order.push_back(peer);
      given.push_back({peer, cost});
    });
  }
  /// Gives back the oldest share, and so on until no one has any.
  void serve_all() {
    while (!given.empty()) give_back_oldest();
  }
  void give_back_oldest() {
    const Given one = given.front();
    given.erase(given.begin());
    share.give_back(one.peer, one.cost);
  }

  FairShare share{{.most = 100, .most_of_one = 50, .quantum = 10}};
  std::vector<net::PeerId> order;
  std::vector<Given> given;
};

TEST_F(ShareTest, ThereIsAlwaysSomeForThePeerThatComesNext) {
  for (int i = 0; i < 1000; ++i) ask(1, 10);
  EXPECT_EQ(order.size(), 5u) << "half of all";
  ask(2, 10);
  ASSERT_EQ(order.size(), 6u);
  EXPECT_EQ(order.back(), 2u);
}

TEST_F(ShareTest, ManyRequestsOfOneDoNotComeBeforeTheFewOfAnother) {
  for (int i = 0; i < 1000; ++i) ask(1, 10);
  for (int i = 0; i < 1000; ++i) ask(2, 10);
  for (int i = 0; i < 3; ++i) ask(3, 10);  // there is nothing for it now
  EXPECT_EQ(order.size(), 10u);
  std::size_t served_before = 0;
  for (std::size_t of_third = 0; of_third < 3;) {
    give_back_oldest();
    of_third = static_cast<std::size_t>(std::count(order.begin(), order.end(), 3));
    served_before = order.size();
  }
  EXPECT_LE(served_before, 10u + 3 * 3 + 2) << "it has every third turn";
}

TEST_F(ShareTest, TurnsAreWeightedByTheirCost) {
  for (int i = 0; i < 400; ++i) ask(1, 40);
  for (int i = 0; i < 4000; ++i) ask(2, 4);
  std::map<net::PeerId, std::size_t> units;
  for (int i = 0; i < 1000; ++i) {
    const Given one = given.front();
    units[one.peer] += one.cost;
    give_back_oldest();
  }
  const double ratio = static_cast<double>(units[1]) / static_cast<double>(units[2]);
  EXPECT_GT(ratio, 0.8);
  EXPECT_LT(ratio, 1.25);
}

TEST_F(ShareTest, WhatIsLongerThanAllIsGivenToOneThatIsAlone) {
  ask(1, 10);
  ask(2, 1000);
  for (int i = 0; i < 1000; ++i) ask(3, 10);
  serve_all();
  ASSERT_EQ(order.size(), 1002u);
  const auto place = std::find(order.begin(), order.end(), 2u) - order.begin();
  EXPECT_LT(place, 120) << "others do not take its room again and again";
}

TEST_F(ShareTest, SharesOfOnePeerComeInItsOrder) {
  std::vector<int> numbers;
  for (int i = 0; i < 100; ++i) {
    share.ask(1, static_cast<std::size_t>(1 + i % 30), [this, &numbers, i] {
      numbers.push_back(i);
      given.push_back({1, static_cast<std::size_t>(1 + i % 30)});
    });
    ask(2, 7);
  }
  serve_all();
  ASSERT_EQ(numbers.size(), 100u);
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST(ShareOrderTest, NobodyWaitsForEverAndNothingIsLost) {
  layout::oracle::for_cases(100, [](layout::oracle::Random& random) {
    FairShare share({.most = 100, .most_of_one = 50, .quantum = 10});
    std::vector<Given> given;
    int asked = 0;
    int got = 0;
    for (int step = 0; step < 300; ++step) {
      if (given.empty() || random.chance(60)) {
        const auto peer = static_cast<net::PeerId>(random.between(1, 5));
        const auto cost = static_cast<std::size_t>(random.between(1, random.chance(10) ? 150 : 40));
        ++asked;
        share.ask(peer, cost, [&given, &got, peer, cost] {
          ++got;
          given.push_back({peer, cost});
        });
      } else {
        const auto at = random.between(0, static_cast<Offset>(given.size()) - 1);
        const Given one = given[static_cast<std::size_t>(at)];
        given.erase(given.begin() + at);
        share.give_back(one.peer, one.cost);
      }
      std::map<net::PeerId, std::size_t> counts;
      std::map<net::PeerId, std::size_t> units;
      std::size_t all = 0;
      for (const Given& one : given) {
        ++counts[one.peer];
        units[one.peer] += one.cost;
        all += one.cost;
      }
      EXPECT_EQ(share.in_use(), all);
      EXPECT_TRUE(all <= 100 || given.size() == 1);
      for (const auto& [peer, count] : counts) EXPECT_TRUE(units[peer] <= 50 || count == 1);
    }
    while (!given.empty()) {
      const Given one = given.back();
      given.pop_back();
      share.give_back(one.peer, one.cost);
    }
    EXPECT_EQ(got, asked);
    EXPECT_EQ(share.in_use(), 0u);
  });
}

TEST_F(ShareTest, PeersThatAreGoneAreForgotten) {
  for (net::PeerId peer = 1; peer <= 10'000; ++peer) {
    ask(peer, 1);
    serve_all();
  }
  EXPECT_LT(share.peers(), 2000u);
}

// What one gets and does not give back leaves half of all for others.
TEST(BuffersTest, OnePeerDoesNotHaveAllOfThem) {
  const auto buffers = std::make_shared<Buffers>(std::size_t{64} << 20, 0);
  std::vector<std::shared_ptr<Buffer>> kept;
  std::vector<net::PeerId> order;
  const auto ask = [&](net::PeerId peer) {
    buffers->ask(peer, std::size_t{1} << 20, [&, peer](std::shared_ptr<Buffer> buffer) {
      order.push_back(peer);
      kept.push_back(std::move(buffer));
    });
  };
  for (int i = 0; i < 100; ++i) ask(1);
  EXPECT_LE(order.size(), 32u);
  ask(2);
  EXPECT_EQ(order.back(), 2u);
  // The room of one is the next one's, which joins those kept.
  while (!kept.empty()) {
    const std::shared_ptr<Buffer> first = std::move(kept.front());
    kept.erase(kept.begin());
  }
  EXPECT_EQ(order.size(), 101u);
  EXPECT_EQ(buffers->in_use(), 0u);
}

}  // namespace
}  // namespace weir::server::internal
