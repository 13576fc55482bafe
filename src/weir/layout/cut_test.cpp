#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/falls.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using weir::testing::IsOk;

FallsSet any_kind_of_set(oracle::Random& random) {
  const Offset kind = random.between(0, 9);
  if (kind < 6) return oracle::random_set(random);
  if (kind < 8) return oracle::interchanged_set(random);
  return oracle::scattered_set(random, 40);
}

TEST(CutTest, SplitsBlocksAtBothEnds) {
  EXPECT_EQ(cut({{0, 9, 0, 1, {}}}, 3, 5), (FallsSet{{0, 2, 0, 1, {}}}));
  EXPECT_EQ(cut({{0, 3, 8, 4, {}}}, 2, 25), (FallsSet{{0, 1, 0, 1, {}}, {6, 9, 8, 2, {}}, {22, 23, 0, 1, {}}}));
}

TEST(CutTest, OfNothingIsNothing) {
  EXPECT_EQ(cut({}, 0, 100), FallsSet{});
  EXPECT_EQ(cut({{0, 3, 8, 4, {}}}, 4, 7), FallsSet{});
  EXPECT_EQ(cut({{0, 3, 8, 4, {}}}, 100, 200), FallsSet{});
}

TEST(CutTest, KeepsAFamilyAFamily) {
  const Offset many = Offset{1} << 50;
  const FallsSet body = cut({{0, 3, 12, many, {}}}, 65536, 131071);
  EXPECT_LE(node_count(body), 3) << oracle::describe(body);
  EXPECT_LE(node_count(cut({{0, 11, 12, many, {{0, 0, 3, 4, {}}}}}, 65537, 12 * many - 5)), 9);
}

TEST(CutTest, IsTheFilterOfTheSequence) {
  oracle::for_cases(12000, [](oracle::Random& random) {
    const FallsSet set = any_kind_of_set(random);
    const oracle::Bytes bytes = oracle::expand(set);
    const Offset end = oracle::end_of(bytes);
    Offset first = random.between(0, end + 2);
    Offset last = random.between(0, end + 2);
    if (first > last) std::swap(first, last);
    oracle::Bytes expected;
    for (const Offset byte : bytes) {
      if (first <= byte && byte <= last) expected.push_back(byte - first);
    }
    const FallsSet part = cut(set, first, last);
    ASSERT_THAT(check(part), IsOk()) << oracle::describe(set) << " [" << first << ", " << last << "]";
    ASSERT_EQ(oracle::expand(part), expected)
        << oracle::describe(set) << " [" << first << ", " << last << "] -> " << oracle::describe(part);
    ASSERT_EQ(simplify(part), part) << oracle::describe(set) << " [" << first << ", " << last << "]";
  });
}

TEST(SubsequenceTest, TakesItemsInOrder) {
  EXPECT_EQ(oracle::expand(subsequence({{0, 0, 4, 2, {}}, {2, 2, 4, 2, {}}}, 1, 3)), (oracle::Bytes{4, 2}));
  EXPECT_EQ(subsequence({{0, 3, 8, 4, {}}}, 4, 4), FallsSet{});
}

TEST(SubsequenceTest, KeepsAFamilyAFamily) {
  const Offset many = Offset{1} << 50;
  EXPECT_LE(node_count(subsequence({{0, 3, 12, many, {}}}, 3, 4 * many - 3)), 3);
}

TEST(SubsequenceTest, IsASliceOfTheSequence) {
  oracle::for_cases(8000, [](oracle::Random& random) {
    const FallsSet set = any_kind_of_set(random);
    const oracle::Bytes bytes = oracle::expand(set);
    const auto [from, to] = oracle::random_range(random, static_cast<Offset>(bytes.size()));
    const FallsSet part = subsequence(set, from, to);
    ASSERT_THAT(check(part), IsOk()) << oracle::describe(set) << " [" << from << ", " << to << ")";
    ASSERT_EQ(oracle::expand(part), oracle::Bytes(bytes.begin() + from, bytes.begin() + to))
        << oracle::describe(set) << " [" << from << ", " << to << ") -> " << oracle::describe(part);
  });
}

}  // namespace
}  // namespace weir::layout
