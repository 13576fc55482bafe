#include <weir/layout/falls.h>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

TEST(CheckTest, AcceptsWhatTheGrammarOfFallsAllows) {
  EXPECT_THAT(check({}), IsOk());
  EXPECT_THAT(check({{0, 0, 0, 1, {}}}), IsOk());
  EXPECT_THAT(check({{3, 5, 6, 5, {}}}), IsOk());
  EXPECT_THAT(check({{0, 3, 4, 2, {}}}), IsOk());  // blocks that touch
  EXPECT_THAT(check({{0, 3, 8, 2, {{0, 0, 2, 2, {}}}}}), IsOk());
  EXPECT_THAT(check({{0, 12, 1, 4, {{0, 0, 4, 4, {}}}}}), IsOk());   // stride shorter than the block, nested
  EXPECT_THAT(check({{4, 5, 0, 1, {}}, {0, 1, 0, 1, {}}}), IsOk());  // out of order
  EXPECT_THAT(check({{0, 0, 4, 2, {}}, {2, 2, 4, 2, {}}}), IsOk());  // interleaved
}

TEST(CheckTest, IgnoresTheStrideOfASingleBlock) {
  EXPECT_THAT(check({{0, 3, 1, 1, {}}}), IsOk());
  EXPECT_THAT(check({{0, 3, -7, 1, {}}}), IsOk());
  EXPECT_THAT(check({{0, 3, kMaxBytes, 1, {}}}), IsOk());
}

TEST(CheckTest, RejectsBadCountsEndsAndStrides) {
  EXPECT_THAT(check({{0, 3, 4, 0, {}}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check({{0, 3, 4, -2, {}}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check({{4, 3, 0, 1, {}}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_FALSE(check({{-1, 3, 0, 1, {}}}).is_ok());
  EXPECT_THAT(check({{0, 3, 0, 2, {}}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check({{0, 3, 3, 2, {}}}), StatusIs(ErrorCode::kInvalidArgument));  // blocks overlap
  EXPECT_THAT(check({{0, 3, -4, 2, {}}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check({{8, 11, 0, 2, {{0, 0, 0, 1, {}}}}}), StatusIs(ErrorCode::kInvalidArgument));
}

TEST(CheckTest, RejectsInnerSetsThatTheBlockDoesNotHold) {
  EXPECT_THAT(check({{0, 3, 8, 2, {{0, 0, 2, 3, {}}}}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check({{0, 3, 8, 2, {{4, 4, 0, 1, {}}}}}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check({{0, 9, 0, 1, {{0, 3, 0, 1, {{2, 5, 0, 1, {}}}}}}}), StatusIs(ErrorCode::kInvalidArgument));
}

TEST(CheckTest, FindsFaultsInEveryPartOfTheTree) {
  EXPECT_FALSE(check({{0, 1, 0, 1, {}}, {0, 9, 0, 1, {{0, 1, 0, 1, {}}, {0, 1, 2, 0, {}}}}}).is_ok());
  EXPECT_FALSE(check({{0, 9, 10, 3, {{0, 1, 1, 2, {}}}}}).is_ok());
}

TEST(CheckTest, NamesTheFallsThatIsWrong) {
  EXPECT_THAT(check({{0, 3, 8, 2, {}}, {41, 43, 2, 7, {}}}), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("41")));
}

TEST(CheckTest, BoundsDepth) {
  EXPECT_THAT(check(oracle::chain(kMaxDepth)), IsOk());
  EXPECT_THAT(check(oracle::chain(kMaxDepth + 1)), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(check(oracle::chain(1000)), StatusIs(ErrorCode::kInvalidArgument));
}

TEST(CheckTest, AcceptsEveryGeneratedSet) {
  oracle::for_cases(2000, [](oracle::Random& random) {
    const FallsSet set = oracle::random_set(random);
    ASSERT_THAT(check(set), IsOk()) << oracle::describe(set);
    const FallsSet interchanged = oracle::interchanged_set(random);
    ASSERT_THAT(check(interchanged), IsOk()) << oracle::describe(interchanged);
  });
}

TEST(SizeTest, ExtentIsTheLastByteNotTheLastBlock) {
  const FallsSet set = {{0, 15, 32, 2, {{0, 0, 4, 2, {}}}}};
  EXPECT_EQ(size(set), 4);
  EXPECT_EQ(extent(set), 37);
  EXPECT_EQ(node_count(set), 2);
  EXPECT_EQ(size(FallsSet{}), 0);
  EXPECT_EQ(extent({}), 0);
  EXPECT_EQ(node_count({}), 0);
}

TEST(SizeTest, AgreesWithListing) {
  oracle::for_cases(4000, [](oracle::Random& random) {
    const FallsSet set = random.chance(30) ? oracle::interchanged_set(random) : oracle::random_set(random);
    const oracle::Bytes bytes = oracle::expand(set);
    ASSERT_EQ(size(set), static_cast<Offset>(bytes.size())) << oracle::describe(set);
    ASSERT_EQ(extent(set), oracle::end_of(bytes)) << oracle::describe(set);
    ASSERT_EQ(node_count(set), oracle::count_nodes(set)) << oracle::describe(set);
    Offset sum = 0;
    for (const Falls& falls : set) sum += size(falls);
    ASSERT_EQ(sum, size(set)) << oracle::describe(set);
  });
}

}  // namespace
}  // namespace weir::layout
