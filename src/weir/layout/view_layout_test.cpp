// Layouts made of views: every byte is with the lowest rank that sees it, or in a stripe.

#include <weir/layout/view_layout.h>

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>

namespace weir::layout {
namespace {

using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

Element rank_view(const std::string& falls, Offset disp, Offset period) {
  return Element::create(*parse_falls(falls), {disp, period}).value();
}

// The views cover what lies behind their displacement; before that the layout goes on with the same pattern.
void expect_holds(const std::vector<Element>& views, const GapStripes& gaps) {
  const auto made = layout_of_views(views, gaps);
  ASSERT_THAT(made, IsOk());
  Offset start = 0;
  for (const auto& view : views) start = std::max(start, view.disp());
  for (Offset x = start; x < start + 2 * made->period() && x < start + 5000; ++x) {
    const auto owner = made->owner(x);
    ASSERT_THAT(owner, IsOk());
    ASSERT_TRUE(*owner) << x;
    std::size_t first = 0;
    while (first < views.size() && !views[first].map(x)) ++first;
    if (first < views.size()) {
      EXPECT_EQ(**owner, static_cast<Offset>(first)) << x;
    } else {
      EXPECT_EQ(**owner, static_cast<Offset>(views.size()) + x % made->period() / gaps.unit % gaps.over) << x;
    }
  }
}

TEST(ViewLayoutTest, TakesViewsThatFitAsTheyAre) {
  // Columns of an array of 2^20 x 2^20 doubles: few words, however large.
  std::vector<Element> columns;
  for (Offset i = 0; i < 4; ++i) {
    columns.push_back(rank_view(concat("(", i << 21, ",", ((i + 1) << 21) - 1, ",8M,1M)"), 0, Offset{1} << 43));
  }
  const auto made = layout_of_views(columns, {});
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->element_count(), 4);
  EXPECT_LT(print(*made).size(), 1000u);
}

TEST(ViewLayoutTest, TakesDisplacementsAway) {
  expect_holds({rank_view("(0,3,-,1)", 4, 12), rank_view("(0,3,-,1)", 8, 12), rank_view("(0,3,-,1)", 12, 12)}, {});
  expect_holds({rank_view("(0,7,-,1)", 30, 12), rank_view("(0,3,-,1)", 2, 12)}, {});
}

TEST(ViewLayoutTest, GivesOverlapsToTheLowestRankAndStripesGaps) {
  // As many bytes as the period has, but not each of them once.
  expect_holds({rank_view("(0,3,-,1)", 0, 8), rank_view("(2,5,-,1)", 0, 8)}, {.unit = 1, .over = 1});
  expect_holds({rank_view("(0,9,-,1)", 0, 40), rank_view("(5,19,-,1)", 0, 40)}, {.unit = 4, .over = 3});
  expect_holds({rank_view("(0,0,3,4)", 0, 12), rank_view("(0,1,4,2)", 1, 8)}, {.unit = 5, .over = 2});
}

// What reaches beyond the end of a period comes round to its start, byte by byte.
TEST(ViewLayoutTest, ComesRoundAtTheEndOfThePeriod) {
  for (Offset disp = 0; disp <= 12; ++disp) {
    SCOPED_TRACE(disp);
    // A head and its rest: together all bytes, so that nothing is striped, wherever the end of the period cuts them.
    const std::vector<Element> views{rank_view("{(0,1,-,1),(4,6,-,1)}", disp, 12),
                                     rank_view("{(2,3,-,1),(7,11,-,1)}", disp, 12)};
    expect_holds(views, {});
    const auto made = layout_of_views(views, {});
    ASSERT_THAT(made, IsOk());
    EXPECT_EQ(made->element_count(), 2);
    EXPECT_EQ(made->period(), 12);
  }
}

TEST(ViewLayoutTest, StripesEveryByteThatNobodySees) {
  // Gaps before, between and behind; their stripes follow units of the file, not of the gap.
  const auto made =
      layout_of_views({rank_view("(3,4,-,1)", 0, 20), rank_view("(9,9,-,1)", 0, 20)}, {.unit = 4, .over = 2});
  ASSERT_THAT(made, IsOk());
  ASSERT_EQ(made->element_count(), 4);
  EXPECT_EQ(print(made->element(2)->falls()), "{(0,2,-,1),(8,8,-,1),(10,11,-,1),(16,19,-,1)}");
}

TEST(ViewLayoutTest, RanksWithoutAViewHaveNoBytes) {
  const auto made = layout_of_views({Element(), rank_view("(0,3,-,1)", 0, 4), Element()}, {});
  ASSERT_THAT(made, IsOk());
  ASSERT_EQ(made->element_count(), 3);
  EXPECT_TRUE(made->element(0)->is_empty());
  EXPECT_EQ(made->element(1)->size(), 4);
  EXPECT_TRUE(made->element(2)->is_empty());
}

TEST(ViewLayoutTest, RefusesWhatNeedsTooManyPieces) {
  // Coprime periods: a common one of 2^50 bytes is the most.
  const Offset prime = (Offset{1} << 31) - 1;
  EXPECT_THAT(layout_of_views({rank_view("(0,0,-,1)", 0, prime), rank_view("(1,1,-,1)", 0, prime + 1)}, {}),
              StatusIs(ErrorCode::kTooComplex, HasSubstr("common multiple")));
  EXPECT_THAT(layout_of_views({rank_view("(0,0,2,100000)", 0, 200'000)}, {.unit = 1, .over = 1}),
              StatusIs(ErrorCode::kTooComplex, HasSubstr("too many pieces")));
  EXPECT_THAT(layout_of_views({rank_view("(0,0,-,1)", 0, 1'000'000)}, {.unit = 1, .over = 2}),
              StatusIs(ErrorCode::kTooComplex, HasSubstr("too many stripes")));
  // As many as are allowed.
  EXPECT_THAT(layout_of_views({rank_view("(0,0,2,30000)", 0, 60'000)}, {.unit = 1, .over = 1}), IsOk());
}

TEST(ViewLayoutTest, ReadsOnlyWhatItWrites) {
  for (const char* text :
       {"", "1", "1 2", "x 4 {(0,3,-,1)}", "0 2 {(0,3,-,1)}", "-1 4 {(0,3,-,1)}", "0 4 {(0,3,-,1)} x"}) {
    EXPECT_FALSE(from_text(text).is_ok()) << text;
  }
}

TEST(ViewLayoutTest, SaysWhyNot) {
  EXPECT_THAT(layout_of_views({rank_view("(0,0,-,1)", 0, 1), rank_view("(0,0,-,1)", 100, 1)}, {}),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("lower ranks see every byte that rank 1 sees")));
}

TEST(ViewLayoutTest, FitsRandomViews) {
  std::mt19937 random(12345);
  const auto below = [&](int n) { return static_cast<Offset>(random() % static_cast<unsigned>(n)); };
  int fitted = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Element> views;
    for (Offset rank = 0; rank < 1 + below(3); ++rank) {
      const Offset length = 1 + below(4);
      const Offset stride = length + below(4);
      const Offset count = 1 + below(3);
      const Offset period = stride * count + 3 * below(3);
      views.push_back(rank_view(concat("(0,", length - 1, ",", stride, ",", count, ")"), below(20), period));
    }
    const GapStripes gaps{1 + below(5), 1 + below(3)};
    if (!layout_of_views(views, gaps).is_ok()) continue;
    ++fitted;
    expect_holds(views, gaps);
    const auto back = from_text(to_text(views[0]));
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(back->falls(), views[0].falls());
    EXPECT_EQ(back->disp(), views[0].disp());
    EXPECT_EQ(back->period(), views[0].period());
  }
  EXPECT_GT(fitted, 50);
}

}  // namespace
}  // namespace weir::layout
