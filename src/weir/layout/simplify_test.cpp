#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/falls.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using weir::testing::IsOk;

TEST(SimplifyTest, LeavesTheSimpleAlone) {
  EXPECT_EQ(simplify({}), FallsSet{});
  EXPECT_EQ(simplify({{3, 5, 6, 5, {}}}), (FallsSet{{3, 5, 6, 5, {}}}));
  const FallsSet backwards = {{4, 5, 0, 1, {}}, {0, 1, 0, 1, {}}};
  EXPECT_EQ(simplify(backwards), backwards);
}

TEST(SimplifyTest, ForgetsTheStrideOfASingleBlock) {
  EXPECT_EQ(simplify({{3, 5, 6, 1, {}}}), (FallsSet{{3, 5, 0, 1, {}}}));
}

TEST(SimplifyTest, MergesAdjacentLeaves) {
  EXPECT_EQ(simplify({{0, 3, 0, 1, {}}, {4, 6, 0, 1, {}}, {7, 7, 0, 1, {}}}), (FallsSet{{0, 7, 0, 1, {}}}));
  EXPECT_EQ(simplify({{0, 3, 4, 4, {}}}), (FallsSet{{0, 15, 0, 1, {}}}));
  EXPECT_EQ(simplify({{0, 3, 4, 4, {}}, {16, 19, 0, 1, {}}}), (FallsSet{{0, 19, 0, 1, {}}}));
}

TEST(SimplifyTest, KeepsWhatTouchesInTheWrongOrder) {
  const FallsSet set = {{4, 7, 0, 1, {}}, {0, 3, 0, 1, {}}};
  EXPECT_EQ(oracle::expand(simplify(set)), oracle::expand(set));
}

TEST(SimplifyTest, MovesChildrenUp) {
  EXPECT_EQ(simplify({{0, 3, 8, 2, {{0, 1, 0, 1, {}}}}}), (FallsSet{{0, 1, 8, 2, {}}}));
  EXPECT_EQ(simplify({{10, 19, 0, 1, {{1, 1, 3, 2, {}}, {8, 9, 0, 1, {}}}}}),
            (FallsSet{{11, 11, 3, 2, {}}, {18, 19, 0, 1, {}}}));
  EXPECT_EQ(simplify({{5, 9, 0, 1, {{1, 4, 0, 1, {{1, 2, 0, 1, {}}}}}}}), (FallsSet{{7, 8, 0, 1, {}}}));
}

TEST(SimplifyTest, FoldsEqualNeighbours) {
  EXPECT_EQ(simplify({{0, 0, 0, 1, {}}, {4, 4, 0, 1, {}}, {8, 8, 0, 1, {}}}), (FallsSet{{0, 0, 4, 3, {}}}));
  EXPECT_EQ(simplify({{0, 1, 8, 3, {}}, {24, 25, 8, 2, {}}}), (FallsSet{{0, 1, 8, 5, {}}}));
  EXPECT_EQ(simplify({{0, 1, 8, 3, {}}, {24, 25, 0, 1, {}}}), (FallsSet{{0, 1, 8, 4, {}}}));
}

TEST(SimplifyTest, FoldsEqualTrees) {
  const FallsSet inner = {{0, 0, 2, 3, {}}, {8, 8, 0, 1, {}}};
  const FallsSet folded = simplify({{0, 9, 0, 1, inner}, {20, 29, 0, 1, inner}, {40, 49, 0, 1, inner}});
  EXPECT_LE(node_count(folded), 3) << oracle::describe(folded);
}

TEST(SimplifyTest, JoinsFamiliesOfFittingStrides) {
  EXPECT_EQ(simplify({{0, 7, 8, 4, {{0, 0, 2, 4, {}}}}}), (FallsSet{{0, 0, 2, 16, {}}}));
  EXPECT_EQ(simplify({{0, 63, 64, 1000, {{0, 15, 16, 4, {}}}}}), (FallsSet{{0, 63999, 0, 1, {}}}));
}

TEST(SimplifyTest, KeepsBlocksThatOverlapNested) {
  // Bytes may occur twice in a sequence, but not in a leaf: its blocks may not overlap.
  for (const FallsSet& set :
       {FallsSet{{0, 2, 2, 2, {{0, 0, 0, 1, {}}, {1, 2, 0, 1, {}}}}}, FallsSet{{0, 9, 1, 2, {{6, 7, 2, 2, {}}}}}}) {
    const FallsSet simple = simplify(set);
    EXPECT_THAT(check(simple), IsOk()) << oracle::describe(simple);
    EXPECT_EQ(oracle::expand(simple), oracle::expand(set)) << oracle::describe(simple);
  }
}

TEST(SimplifyTest, IsInstantForHugeCounts) {
  const Offset many = Offset{1} << 40;
  EXPECT_EQ(simplify({{0, 7, 8, many, {{0, 0, 2, 4, {}}}}}), (FallsSet{{0, 0, 2, 4 * many, {}}}));
  EXPECT_EQ(simplify({{0, 0, 2, many, {}}, {2 * many, 2 * many, 2, many, {}}}), (FallsSet{{0, 0, 2, 2 * many, {}}}));
}

void expect_simplified(const FallsSet& set) {
  const FallsSet simple = simplify(set);
  ASSERT_THAT(check(simple), IsOk()) << oracle::describe(set) << " -> " << oracle::describe(simple);
  ASSERT_EQ(oracle::expand(simple), oracle::expand(set)) << oracle::describe(set) << " -> " << oracle::describe(simple);
  ASSERT_LE(oracle::count_nodes(simple), oracle::count_nodes(set))
      << oracle::describe(set) << " -> " << oracle::describe(simple);
  ASSERT_EQ(simplify(simple), simple) << "of " << oracle::describe(set);
}

TEST(SimplifyTest, KeepsTheSequence) {
  oracle::for_cases(12000, [](oracle::Random& random) { expect_simplified(oracle::random_set(random)); });
}

TEST(SimplifyTest, KeepsTheSequenceOfInterchangedLoops) {
  oracle::for_cases(3000, [](oracle::Random& random) { expect_simplified(oracle::interchanged_set(random)); });
}

TEST(SimplifyTest, KeepsTheSequenceOfScatteredBytes) {
  oracle::for_cases(4000, [](oracle::Random& random) { expect_simplified(oracle::scattered_set(random, 40)); });
}

TEST(SimplifyTest, RecoversAFamilyFromItsSegments) {
  oracle::for_cases(1000, [](oracle::Random& random) {
    const Offset length = random.between(1, 4);
    const Offset count = random.between(2, 9);
    const Falls family{random.between(0, 5), 0, length + random.between(1, 6), count, {}};
    FallsSet segments;
    for (Offset i = 0; i < count; ++i) {
      const Offset left = family.left + i * family.stride;
      segments.push_back({left, left + length - 1, 0, 1, {}});
    }
    const FallsSet expected = {{family.left, family.left + length - 1, family.stride, count, {}}};
    ASSERT_EQ(simplify(segments), expected);
  });
}

// Segments of 2 bytes with gaps of 1 to 9.
FallsSet irregular_segments(oracle::Random& random, int count) {
  FallsSet segments;
  Offset at = 0;
  for (int i = 0; i < count; ++i) {
    at += random.between(1, 9);
    segments.push_back({at, at + 1, 0, 1, {}});
    at += 2;
  }
  return segments;
}

TEST(SimplifyTest, LongListsKeepTheirSequence) {
  oracle::Random random(11);
  const FallsSet irregular = irregular_segments(random, 20000);
  EXPECT_EQ(oracle::expand(simplify(irregular)), oracle::expand(irregular));

  FallsSet regular;
  for (Offset i = 0; i < 20000; ++i) regular.push_back({i * 7, i * 7 + (i % 3), 0, 1, {}});
  EXPECT_LE(node_count(simplify(regular)), 8);
  FallsSet mixed = irregular;
  const Offset end = extent(mixed) + 10;
  for (Falls segment : regular) mixed.push_back({segment.left + end, segment.right + end, 0, 1, {}});
  const FallsSet simple = simplify(mixed);
  EXPECT_EQ(oracle::expand(simple), oracle::expand(mixed));
  EXPECT_LE(node_count(simple), 15000) << "the regular half is one family";
}

TEST(AppendJoinedTest, KeepsTheSequence) {
  oracle::for_cases(4000, [](oracle::Random& random) {
    FallsSet set;
    oracle::Bytes expected;
    Offset base = 0;
    for (int parts = 0; parts < 4; ++parts) {
      for (Falls falls : oracle::random_set(random)) {
        falls.left += base;
        falls.right += base;
        const oracle::Bytes bytes = oracle::expand({falls});
        expected.insert(expected.end(), bytes.begin(), bytes.end());
        append_joined(set, std::move(falls));
      }
      base = oracle::end_of(expected);
    }
    ASSERT_THAT(check(set), IsOk());
    ASSERT_EQ(oracle::expand(set), expected) << oracle::describe(set);
  });
}

TEST(AppendJoinedTest, HalvesWhatIsIrregularAndMergesWhatTouches) {
  oracle::Random random(12);
  FallsSet set;
  for (const Falls& segment : irregular_segments(random, 1000)) append_joined(set, segment);
  EXPECT_LE(set.size(), 502U);
  FallsSet touching;
  for (const Offset left : {0, 8, 10, 20, 22, 24}) append_joined(touching, {left, left + 1, 0, 1, {}});
  EXPECT_EQ(touching, (FallsSet{{0, 1, 0, 1, {}}, {8, 11, 0, 1, {}}, {20, 25, 0, 1, {}}}));
}

}  // namespace
}  // namespace weir::layout
