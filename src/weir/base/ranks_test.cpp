#include <weir/base/ranks.h>

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(RanksTest, ListsAreShort) {
  EXPECT_EQ(list_ranks({}), "");
  EXPECT_EQ(list_ranks({3}), "3");
  EXPECT_EQ(list_ranks({0, 1, 2, 5, 7, 8}), "0-2,5,7,8");
  EXPECT_EQ(list_ranks({3, 1, 2, 7, 5, 1}), "1-3,5,7");
}

TEST(RanksTest, TheOddOneOutComesFirst) {
  EXPECT_EQ(describe_difference({"y", "y", "y", "x", "y"}), "rank 3: x; ranks 0-2,4: y");
  EXPECT_EQ(describe_difference({"b", "a"}), "rank 1: a; rank 0: b");
  EXPECT_EQ(describe_difference({"long x", "long y"}, 4), "rank 0: long; rank 1: long");
  EXPECT_EQ(describe_difference({"a", "a"}), "");
  EXPECT_EQ(describe_difference({}), "");
}

}  // namespace
}  // namespace weir
