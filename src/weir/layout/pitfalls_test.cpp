#include <weir/layout/pitfalls.h>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::Bytes;
using oracle::expand;
using oracle::for_cases;
using oracle::Random;
using weir::testing::IsOkAndHolds;
using weir::testing::StatusIs;

/// Every array element in file order, kept if each of its indices is dealt to the process.
Bytes bytes_by_definition(const Pitfalls& pitfalls, const std::vector<Offset>& coordinates) {
  Offset count = 1;
  for (const auto& level : pitfalls.levels) count *= level.extent;
  Bytes out;
  for (Offset number = 0; number < count; ++number) {
    bool is_owned = true;
    Offset rest = number;
    for (std::size_t d = pitfalls.levels.size(); d-- > 0;) {
      const Pitfalls::Level& level = pitfalls.levels[d];
      const Offset index = rest % level.extent;
      rest /= level.extent;
      is_owned = is_owned && index / level.block % level.processes == coordinates[d];
    }
    for (Offset byte = 0; is_owned && byte < pitfalls.elem; ++byte) out.push_back(number * pitfalls.elem + byte);
  }
  return out;
}

Pitfalls random_pitfalls(Random& random, std::vector<Offset>& coordinates) {
  Pitfalls pitfalls;
  pitfalls.elem = random.between(1, 3);
  const Offset rank = random.between(1, 4);
  const Offset longest = rank == 1 ? 40 : rank == 2 ? 12 : rank == 3 ? 7 : 5;
  for (Offset d = 0; d < rank; ++d) {
    pitfalls.levels.push_back({.extent = random.between(1, longest),
                               .block = random.between(1, random.chance(20) ? longest + 3 : 3),
                               .processes = random.between(1, 4)});
    coordinates.push_back(random.between(0, pitfalls.levels.back().processes - 1));
  }
  return pitfalls;
}

TEST(PitfallsTest, HoldsWhatTheDefinitionSays) {
  for_cases(20000, [](Random& random) {
    std::vector<Offset> coordinates;
    const Pitfalls pitfalls = random_pitfalls(random, coordinates);
    const FallsSet set = pitfalls.evaluate(coordinates);
    ASSERT_THAT(check(set), weir::testing::IsOk()) << oracle::describe(set);
    ASSERT_EQ(expand(set), bytes_by_definition(pitfalls, coordinates)) << oracle::describe(set);
  });
}

TEST(PitfallsTest, IsAsSimpleAsItGets) {
  for_cases(5000, [](Random& random) {
    std::vector<Offset> coordinates;
    const FallsSet set = random_pitfalls(random, coordinates).evaluate(coordinates);
    ASSERT_LE(node_count(set), node_count(simplify(set))) << oracle::describe(set);
  });
}

TEST(PitfallsTest, BuildsWholeBlocksAsAFamilyAndTheClippedBlockApart) {
  const Pitfalls cyclic{.levels = {{.extent = 11, .block = 2, .processes = 2}}, .elem = 4};
  EXPECT_EQ(cyclic.evaluate({0}), (FallsSet{{0, 7, 16, 3, {}}}));
  EXPECT_EQ(cyclic.evaluate({1}), (FallsSet{{8, 15, 16, 2, {}}, {40, 43, 0, 1, {}}}));
}

TEST(PitfallsTest, MergesLevelsThatContinueEachOther) {
  const Pitfalls rows{.levels = {{8, 2, 4}, {16, 16, 1}}, .elem = 8};
  EXPECT_EQ(rows.evaluate({1, 0}), (FallsSet{{256, 511, 0, 1, {}}}));
  const Pitfalls columns{.levels = {{4, 4, 1}, {8, 1, 2}}, .elem = 1};
  EXPECT_EQ(columns.evaluate({0, 1}), (FallsSet{{1, 1, 2, 16, {}}})) << "row after row, every second column";
}

TEST(PitfallsTest, GivesAProcessWithoutAShareTheEmptySet) {
  const Pitfalls pitfalls{.levels = {{3, 1, 1}, {2, 1, 4}}, .elem = 8};
  EXPECT_EQ(pitfalls.evaluate({0, 3}), FallsSet{});
}

TEST(PitfallsTest, KeepsItsSizeAndItsExactnessForHugeArrays) {
  const Offset edge = Offset{1} << 30;
  const Pitfalls pitfalls{.levels = {{edge, 64, 2}, {edge, 64, 2}}, .elem = 4};
  EXPECT_EQ(pitfalls.evaluate({1, 0}), (FallsSet{{64 * edge * 4,
                                                  64 * edge * 4 + 63 * edge * 4 + (edge - 128) * 4 + 255,
                                                  128 * edge * 4,
                                                  edge / 128,
                                                  {{0, 255, 512, edge / 128 * 64, {}}}}}))
      << "rows of a block continue each other, since 128 divides the edge";
}

TEST(PitfallsTest, SurvivesBlocksAndProcessCountsWhoseProductOverflows) {
  const Offset huge = kMaxBytes;
  const Pitfalls pitfalls{.levels = {{huge, huge / 2, Offset{1} << 31}}, .elem = 1};
  EXPECT_EQ(pitfalls.evaluate({1}), (FallsSet{{huge / 2, huge - 1, 0, 1, {}}}));
  EXPECT_EQ(pitfalls.evaluate({2}), FallsSet{});
  const Pitfalls wide{.levels = {{10, huge, 3}}, .elem = 1};
  EXPECT_EQ(wide.evaluate({0}), (FallsSet{{0, 9, 0, 1, {}}}));
  EXPECT_EQ(wide.evaluate({2}), FallsSet{});
}

TEST(PitfallsTest, CountsBytesAndRefusesToOverflow) {
  const Offset edge = Offset{1} << 31;
  EXPECT_THAT((Pitfalls{.levels = {{edge, 1, 1}, {edge, 1, 1}}, .elem = 1}.bytes()), IsOkAndHolds(kMaxBytes));
  EXPECT_THAT((Pitfalls{.levels = {{edge, 1, 1}, {edge, 1, 1}}, .elem = 2}.bytes()), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT((Pitfalls{.levels = {}, .elem = 8}.bytes()), IsOkAndHolds(8));
}

}  // namespace
}  // namespace weir::layout
