#include <weir/scalapack/internal/dealing.h>

#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir::scalapack::internal {
namespace {

using ::testing::ElementsAre;
using weir::testing::IsOk;

// ScaLAPACK's definition, index by index.
Offset owner(const Dealing& dealing, Offset global) {
  return (global / dealing.block + dealing.source) % dealing.processes;
}
Offset local(const Dealing& dealing, Offset global) {
  return global / (dealing.block * dealing.processes) * dealing.block + global % dealing.block;
}

std::vector<Offset> indices(const Share& share) {
  std::vector<Offset> all;
  for (const Family& family : share.families) {
    for (Offset i = 0; i < family.count; ++i) {
      for (Offset k = 0; k < family.length; ++k) all.push_back(family.left + i * family.stride + k);
    }
  }
  return all;
}

TEST(DealingTest, FirstAndLastBlockMayBeCut) {
  // 0 1 2 3 | 4 5 6 7 | 8 9 10 11 | ...: process 0 of two holds 0-3, 8-11, 16-19; asked for 2 .. 17.
  const Share share = share_of({16, 2, 4, 2, 0}, 0);
  EXPECT_THAT(share.families, ElementsAre(Family{0, 2, 0, 1}, Family{6, 4, 0, 1}, Family{14, 2, 0, 1}));
  EXPECT_EQ(share.local_first, 2);
  EXPECT_EQ(share.count, 8);
}

TEST(DealingTest, SharesAreWhatScalapackDefines) {
  std::mt19937 engine(7);
  const auto draw = [&](Offset low, Offset high) { return low + static_cast<Offset>(engine()) % (high - low + 1); };
  for (int turn = 0; turn < 5000; ++turn) {
    Dealing dealing{draw(0, 60), draw(0, 40), draw(1, 12), draw(1, 5), 0};
    dealing.source = draw(0, dealing.processes - 1);
    for (Offset process = 0; process < dealing.processes; ++process) {
      std::vector<Offset> expected;
      for (Offset i = 0; i < dealing.extent; ++i) {
        if (owner(dealing, dealing.first + i) == process) expected.push_back(i);
      }
      const Share share = share_of(dealing, process);
      ASSERT_EQ(indices(share), expected);
      ASSERT_EQ(share.count, static_cast<Offset>(expected.size()));
      ASSERT_LE(share.families.size(), 3u);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(local(dealing, dealing.first + expected[i]), share.local_first + static_cast<Offset>(i));
      }
    }
  }
}

TEST(DealingTest, ElementsHoldTheShareInLocalOrder) {
  const Dealing dealing{17, 3, 2, 3, 1};
  constexpr Offset kUnit = 4;
  for (Offset process = 0; process < 3; ++process) {
    const Share share = share_of(dealing, process);
    const auto element = element_of(share, dealing.extent, kUnit);
    ASSERT_THAT(element, IsOk());
    Offset y = 0;
    for (const Offset index : indices(share)) {
      for (Offset byte = 0; byte < kUnit; ++byte, ++y) ASSERT_EQ(element->unmap(y), index * kUnit + byte);
    }
    ASSERT_EQ(element->size(), y);
  }
}

TEST(DealingTest, AShareOfNothingIsAnEmptyElement) {
  const Dealing dealing{4, 0, 4, 3, 0};
  const Share share = share_of(dealing, 2);
  EXPECT_EQ(share.count, 0);
  const auto element = element_of(share, dealing.extent, 8);
  ASSERT_THAT(element, IsOk());
  EXPECT_TRUE(element->is_empty());
}

}  // namespace
}  // namespace weir::scalapack::internal
