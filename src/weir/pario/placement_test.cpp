// Where the subfiles of ranks go: to the rank's host if a target is there, and evenly.

#include <weir/pario/internal/placement.h>

#include <algorithm>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::pario::internal {
namespace {

using ::testing::ElementsAre;
using Hosts = std::vector<std::string>;

TEST(PlacementTest, PutsSubfilesOnTheHostOfTheirRank) {
  const Placement placed = place_at_ranks(Hosts{"b", "a", "a", "b"}, Hosts{"a", "b"}, 4, 0);
  EXPECT_THAT(placed.targets, ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(placed.at_rank, 4U);
}

TEST(PlacementTest, GoesRoundTheTargetsOfAHost) {
  EXPECT_THAT(place_at_ranks(Hosts{"a", "a", "a"}, Hosts{"a", "b", "a"}, 3, 0).targets, ElementsAre(0, 2, 0));
  EXPECT_THAT(place_at_ranks(Hosts{"a", "a", "a"}, Hosts{"a", "b", "a"}, 3, 1).targets, ElementsAre(2, 0, 2));
}

TEST(PlacementTest, RanksWithoutATargetTakeThoseThatHaveFewest) {
  const Placement placed = place_at_ranks(Hosts{"c", "a", "a", "c"}, Hosts{"a", "b", ""}, 4, 0);
  EXPECT_THAT(placed.targets, ElementsAre(1, 0, 0, 2));
  EXPECT_EQ(placed.at_rank, 2U);
}

TEST(PlacementTest, TargetsOfUnknownHostsAreOnNoRanksHost) {
  EXPECT_EQ(place_at_ranks(Hosts{"", ""}, Hosts{"", "a"}, 2, 0).at_rank, 0U);
}

TEST(PlacementTest, StripesOfGapsGoOverAllTargets) {
  const Placement placed = place_at_ranks(Hosts{"a", "a"}, Hosts{"a", "b", "b"}, 5, 1);
  EXPECT_THAT(placed.targets, ElementsAre(0, 0, 1, 2, 0));
}

using Counts = std::map<std::uint32_t, std::size_t>;

std::size_t spread(const std::vector<std::uint32_t>& of, const Counts& counts) {
  std::size_t least = SIZE_MAX;
  std::size_t most = 0;
  for (const std::uint32_t target : of) {
    const auto found = counts.find(target);
    const std::size_t count = found == counts.end() ? 0 : found->second;
    least = std::min(least, count);
    most = std::max(most, count);
  }
  return of.empty() ? 0 : most - least;
}

struct Hosted {
  Hosts ranks;
  Hosts targets;
  std::size_t gaps = 0;
  std::uint32_t start = 0;
};

Hosted random_hosts(std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::size_t kinds = 1 + below(5);
  const auto host = [&] { return std::string(1, static_cast<char>('a' + below(kinds))); };
  Hosted hosted;
  for (std::size_t i = 1 + below(20); i > 0; --i) hosted.ranks.push_back(host());
  for (std::size_t i = 1 + below(8); i > 0; --i) hosted.targets.push_back(below(8) == 0 ? std::string() : host());
  hosted.gaps = below(3) * hosted.targets.size() + below(2);
  hosted.start = static_cast<std::uint32_t>(random());
  return hosted;
}

void expect_good(const Hosted& hosted, const Placement& placed) {
  ASSERT_EQ(placed.targets.size(), hosted.ranks.size() + hosted.gaps);
  std::map<std::string, std::vector<std::uint32_t>> on;  // targets by host
  std::vector<std::uint32_t> all;
  for (std::uint32_t target = 0; target < hosted.targets.size(); ++target) {
    all.push_back(target);
    if (!hosted.targets[target].empty()) on[hosted.targets[target]].push_back(target);
  }
  Counts local;
  Counts ranks;
  std::size_t at_rank = 0;
  for (std::size_t rank = 0; rank < hosted.ranks.size(); ++rank) {
    const std::uint32_t target = placed.targets[rank];
    ASSERT_LT(target, hosted.targets.size());
    ++ranks[target];
    if (on.count(hosted.ranks[rank]) == 0) continue;
    EXPECT_EQ(hosted.targets[target], hosted.ranks[rank]) << "rank " << rank;
    ++local[target];
    ++at_rank;
  }
  EXPECT_EQ(placed.at_rank, at_rank);
  for (const auto& [host, targets] : on) EXPECT_LE(spread(targets, local), 1U) << "host " << host;
  // A target that got a rank from elsewhere has no more than any other, but for one.
  for (const std::uint32_t target : all) {
    if (ranks[target] == local[target]) continue;
    for (const std::uint32_t other : all) EXPECT_LE(ranks[target], ranks[other] + 1);
  }
  Counts gaps;
  for (std::size_t i = hosted.ranks.size(); i < placed.targets.size(); ++i) ++gaps[placed.targets[i]];
  EXPECT_LE(spread(all, gaps), 1U);
}

TEST(PlacementTest, IsLocalWherePossibleAndBalanced) {
  constexpr unsigned kSeed = 20240;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 2000 && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(::testing::Message() << "seed " << kSeed << ", round " << round);
    const Hosted hosted = random_hosts(random);
    expect_good(hosted, place_at_ranks(hosted.ranks, hosted.targets, hosted.ranks.size() + hosted.gaps, hosted.start));
  }
}

// Files of one rank each, one after the other, with starts as the metadata service deals them.
TEST(PlacementTest, FilesOfFewRanksDoNotMeetOnOneTarget) {
  const Hosts targets{"a", "b", "a", "b"};
  Counts used;
  for (std::uint32_t start = 0; start < 8; ++start) ++used[place_at_ranks(Hosts{"b"}, targets, 1, start).targets[0]];
  EXPECT_EQ(used, (Counts{{1, 4}, {3, 4}}));
}

}  // namespace
}  // namespace weir::pario::internal
