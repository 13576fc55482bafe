#include <weir/base/huge_pages.h>

#include <gtest/gtest.h>

namespace weir {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

int calls_until_worth_asking(HugePages& pages) {
  int calls = 0;
  while (calls < 100000 && !pages.is_worth_asking()) ++calls;
  return calls;
}

TEST(HugePagesTest, AreAskedForLessAndLessWhereTheyComeSlowly) {
  HugePages pages;
  EXPECT_TRUE(pages.is_worth_asking());
  pages.note(milliseconds(10));
  EXPECT_TRUE(pages.are_slow());
  const int first = calls_until_worth_asking(pages);
  EXPECT_GT(first, 10);
  pages.note(milliseconds(10));
  const int second = calls_until_worth_asking(pages);
  EXPECT_GT(second, first);
  for (int i = 0; i < 20; ++i) pages.note(milliseconds(10));
  EXPECT_LT(calls_until_worth_asking(pages), 100000) << "but never for good";
}

TEST(HugePagesTest, AreAskedForAgainWhereTheyComeFast) {
  HugePages pages;
  pages.note(milliseconds(10));
  pages.note(milliseconds(10));
  pages.note(microseconds(200));
  EXPECT_FALSE(pages.are_slow());
  EXPECT_TRUE(pages.is_worth_asking());
  EXPECT_TRUE(pages.is_worth_asking());
}

TEST(HugePagesTest, WhatAnotherProcessFoundOutCountsUntilOneWasTriedHere) {
  HugePages pages;
  pages.assume_slow();
  EXPECT_TRUE(pages.are_slow());
  pages.note(microseconds(200));
  pages.assume_slow();
  EXPECT_FALSE(pages.are_slow());
}

TEST(HugePagesTest, WithoutAFileThereIsNone) {
  HugePages pages;
  EXPECT_FALSE(pages.make(-1, 0));
}

}  // namespace
}  // namespace weir
