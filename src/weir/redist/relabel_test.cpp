#include <weir/redist/internal/relabel.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/redist/internal/agreement.h>

namespace weir::redist::internal {
namespace {

using ::testing::ElementsAre;

TEST(RelabelTest, KeepsNumbersWhereNothingIsGained) {
  const std::vector<Flow> flows{{0, 0, 5}, {0, 1, 5}, {1, 0, 5}, {1, 1, 5}};
  EXPECT_THAT(relabel(flows, 2, 2), ElementsAre(0, 1));
}

TEST(RelabelTest, FollowsTheLargestFlows) {
  const std::vector<Flow> flows{{0, 1, 9}, {1, 2, 8}, {2, 0, 7}, {0, 0, 1}};
  EXPECT_THAT(relabel(flows, 3, 3), ElementsAre(2, 0, 1));
  EXPECT_EQ(local_bytes(flows, {2, 0, 1}), 24);
}

TEST(RelabelTest, ElementsWithoutBytesGetRanksThatAreLeft) {
  const std::vector<Flow> flows{{2, 0, 9}};
  EXPECT_THAT(relabel(flows, 3, 4), ElementsAre(2, 1, 0));
}

TEST(RelabelTest, NeverWorseThanNotRelabelling) {
  // Greedy takes 10 and is left with 0; the identity keeps 9 + 9.
  const std::vector<Flow> flows{{0, 1, 10}, {0, 0, 9}, {1, 1, 9}};
  EXPECT_THAT(relabel(flows, 2, 2), ElementsAre(0, 1));
}

}  // namespace
}  // namespace weir::redist::internal
