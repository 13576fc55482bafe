#include <weir/layout/element.h>

#include <limits>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::BruteElement;
using oracle::Pattern;
using oracle::Random;
using weir::testing::IsOk;
using weir::testing::StatusIs;

constexpr Offset kPeriods = 4;

TEST(ElementTest, DefaultIsEmpty) {
  const Element element;
  EXPECT_TRUE(element.is_empty());
  EXPECT_EQ(element.size(), 0);
  EXPECT_EQ(element.period(), 1);
  EXPECT_EQ(element.limit(), 0);
  EXPECT_TRUE(element.falls().empty());
  EXPECT_EQ(element.map(0), std::nullopt);
  EXPECT_EQ(element.map_next(0), std::nullopt);
  EXPECT_EQ(element.map_previous(100), std::nullopt);
  EXPECT_EQ(element.unmap(0), std::nullopt);
  EXPECT_EQ(element.count_below(kMaxBytes), 0);
  EXPECT_EQ(element.segment_at(0, 10).length, 0);
  EXPECT_TRUE(element.is_contiguous(0, 0));
  EXPECT_TRUE(element.covers(5, 5));
  EXPECT_FALSE(element.covers(5, 6));
}

TEST(ElementTest, PeriodDefaultsToTheExtent) {
  const auto element = Element::create({{2, 3, 8, 2, {}}}, {.disp = 5});
  ASSERT_THAT(element, IsOk());
  EXPECT_EQ(element->disp(), 5);
  EXPECT_EQ(element->period(), 12);
  EXPECT_EQ(element->size(), 4);
  EXPECT_EQ(element->falls(), (FallsSet{{2, 3, 8, 2, {}}}));
}

TEST(ElementTest, RejectsBadSetsAndPlacements) {
  EXPECT_THAT(Element::create({{0, 3, 4, 0, {}}}, {}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Element::create({{0, 3, 8, 2, {}}}, {.period = 11}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Element::create({{0, 3, 8, 2, {}}}, {.period = 12}), IsOk());
  EXPECT_FALSE(Element::create({{0, 3, 8, 2, {}}}, {.period = -12}).is_ok());
  EXPECT_FALSE(Element::create({{0, 3, 8, 2, {}}}, {.disp = -1}).is_ok());
  EXPECT_FALSE(Element::create({{0, 3, 8, 2, {}}}, {.disp = kMaxBytes + 1}).is_ok());
  EXPECT_FALSE(Element::create({{0, 3, 8, 2, {}}}, {.period = kMaxBytes + 1}).is_ok());
}

TEST(ElementTest, RejectsBytesHeldTwice) {
  EXPECT_THAT(Element::create({{0, 3, 0, 1, {}}, {3, 5, 0, 1, {}}}, {}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Element::create({{0, 0, 4, 8, {}}, {0, 0, 6, 5, {}}}, {}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Element::create({{0, 0, 4, 8, {}}, {2, 2, 6, 5, {}}}, {}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Element::create({{0, 12, 1, 5, {{0, 0, 4, 4, {}}}}}, {}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Element::create({{0, 0, 4, 8, {}}, {2, 2, 4, 5, {}}}, {}), IsOk());
  EXPECT_THAT(Element::create({{0, 12, 1, 4, {{0, 0, 4, 4, {}}}}}, {}), IsOk());
}

TEST(ElementTest, RejectsJustTheSetsThatHoldAByteTwice) {
  int rejected = 0;
  oracle::for_cases(6000, [&](Random& random) {
    const FallsSet set = oracle::random_set(random);
    const bool twice = oracle::has_duplicates(oracle::expand(set));
    const auto element = Element::create(set, {});
    rejected += twice ? 1 : 0;
    if (twice) {
      ASSERT_THAT(element, StatusIs(ErrorCode::kInvalidArgument)) << oracle::describe(set);
    } else {
      ASSERT_THAT(element, IsOk()) << oracle::describe(set);
    }
  });
  EXPECT_GT(rejected, 100);  // the generator must reach both answers
}

TEST(ElementTest, FindsAByteHeldTwiceAmongHugeFamilies) {
  const Offset many = Offset{1} << 40;
  EXPECT_THAT(Element::create({{0, 0, 4, many, {}}, {2, 2, 4, many, {}}}, {}), IsOk());
  EXPECT_THAT(Element::create({{0, 0, 4, many, {}}, {2, 2, 6, many / 2, {}}}, {}),
              StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Element::create({{0, 1, 4, many, {}}, {2, 2, 4, many, {}}, {4 * many - 3, 4 * many - 3, 0, 1, {}}}, {}),
              StatusIs(ErrorCode::kInvalidArgument));
}

/// Every look-up of one element against its tables.
void expect_agrees(const Element& element, const Pattern& pattern, Random& random) {
  const BruteElement brute(pattern, kPeriods);
  const Offset x_end = pattern.disp + (kPeriods - 1) * pattern.period;  // `next` must stay inside the tables
  const Offset y_end = (kPeriods - 1) * brute.per_period();
  ASSERT_EQ(element.size(), brute.per_period());
  ASSERT_EQ(element.period(), pattern.period);
  ASSERT_EQ(element.disp(), pattern.disp);
  ASSERT_EQ(element.is_monotone(), brute.is_monotone());
  ASSERT_EQ(element.is_endless(), brute.is_monotone() && element.size() == element.period());
  Offset below = 0;
  for (Offset x = 0; x < x_end; ++x) {
    ASSERT_EQ(element.map(x), brute.map(x)) << "x = " << x;
    ASSERT_EQ(element.map_next(x), brute.map_next(x)) << "x = " << x;
    ASSERT_EQ(element.map_previous(x), brute.map_previous(x)) << "x = " << x;
    ASSERT_EQ(element.count_below(x), below) << "x = " << x;
    below += brute.map(x) ? 1 : 0;
  }
  for (Offset y = 0; y < y_end; ++y) ASSERT_EQ(element.unmap(y), brute.unmap(y)) << "y = " << y;
  for (int i = 0; i < 8; ++i) {
    const auto [from, to] = oracle::random_range(random, y_end);
    const std::vector<Segment> expected = brute.segments(from, to);
    ASSERT_EQ(element.is_contiguous(from, to), expected.size() <= 1) << from << ' ' << to;
    if (from < to) {
      ASSERT_EQ(element.segment_at(from, to - from), expected.front()) << from << ' ' << to;
    }
    std::vector<Segment> walked;
    for (SegmentCursor cursor{element, from, to}; auto segment = cursor.next();) walked.push_back(*segment);
    ASSERT_EQ(walked, expected) << from << ' ' << to;
    const auto [x, x_to] = oracle::random_range(random, x_end);
    ASSERT_EQ(element.covers(x, x_to), brute.covers(x, x_to)) << x << ' ' << x_to;
    const Offset close = std::min(x_end, x + random.between(0, 4));
    ASSERT_EQ(element.covers(x, close), brute.covers(x, close)) << x << ' ' << close;
  }
}

TEST(ElementTest, AgreesWithListing) {
  oracle::for_cases(6000, [](Random& random) {
    const Pattern pattern = oracle::random_pattern(random, {.max_period = 96});
    SCOPED_TRACE(oracle::describe(pattern));
    const auto element = Element::create(pattern.set, pattern.placement());
    ASSERT_THAT(element, IsOk());
    ASSERT_EQ(element->falls(), pattern.set);
    expect_agrees(*element, pattern, random);
  });
}

TEST(ElementTest, AgreesWithListingForArrayPartitions) {
  oracle::for_cases(1500, [](Random& random) {
    const auto partition = Partition::create(oracle::random_description(random), {.disp = random.between(0, 9)});
    ASSERT_THAT(partition, IsOk());
    const auto element = partition->element(random.between(0, partition->element_count() - 1));
    ASSERT_THAT(element, IsOk());
    SCOPED_TRACE(oracle::describe(oracle::pattern_of(*element)));
    ASSERT_EQ(element->period(), partition->period());
    expect_agrees(*element, oracle::pattern_of(*element), random);
  });
}

TEST(ElementTest, AnswersNothingOutsideTheFile) {
  const auto element = Element::create({{1, 2, 0, 1, {}}}, {.disp = 10, .period = 4});
  ASSERT_THAT(element, IsOk());
  EXPECT_EQ(element->map(-1), std::nullopt);
  EXPECT_EQ(element->map(1), std::nullopt);
  EXPECT_EQ(element->map(kMaxBytes), std::nullopt);
  EXPECT_EQ(element->map_next(-5), 0);
  EXPECT_EQ(element->map_next(kMaxBytes), std::nullopt);
  EXPECT_EQ(element->map_previous(-1), std::nullopt);
  EXPECT_EQ(element->map_previous(10), std::nullopt);
  EXPECT_EQ(element->map_previous(11), 0);
  EXPECT_EQ(element->map_previous(kMaxBytes - 1), element->limit() - 1);
  EXPECT_EQ(element->unmap(-1), std::nullopt);
  EXPECT_EQ(element->segment_at(-1, 5).length, 0);
  EXPECT_EQ(element->segment_at(element->limit(), 5).length, 0);
  EXPECT_EQ(element->count_below(-1), 0);
}

TEST(ElementTest, LimitIsTheLastByteBelowTheEnd) {
  oracle::for_cases(2000, [](Random& random) {
    const Pattern pattern = oracle::random_pattern(random);
    const BruteElement one(pattern, 1);
    if (!one.is_monotone()) return;
    SCOPED_TRACE(oracle::describe(pattern));
    const auto element = Element::create(pattern.set, pattern.placement());
    ASSERT_THAT(element, IsOk());
    const Offset whole = (kMaxBytes - pattern.disp) / pattern.period;
    const Offset rest = (kMaxBytes - pattern.disp) % pattern.period;
    const Offset limit = whole * one.per_period() + one.count_below(pattern.disp + rest);
    ASSERT_EQ(element->limit(), limit);
    ASSERT_EQ(element->count_below(kMaxBytes), limit);
    ASSERT_EQ(element->unmap(limit), std::nullopt);
    if (limit == 0) return;
    const auto last = element->unmap(limit - 1);
    ASSERT_TRUE(last.has_value());
    ASSERT_LT(*last, kMaxBytes);
    ASSERT_EQ(element->map(*last), limit - 1);
    ASSERT_EQ(element->map_next(*last + 1), std::nullopt);
    ASSERT_EQ(element->map_previous(kMaxBytes - 1), limit - 1);
  });
}

// At both ends of the file and at every end of a period, against a walk byte by byte.
TEST(ElementTest, TheClosestBytesAreFoundAtAllLimits) {
  oracle::for_cases(1000, [](Random& random) {
    const Pattern pattern = oracle::random_pattern(random);
    const auto element = Element::create(pattern.set, pattern.placement());
    ASSERT_THAT(element, IsOk());
    SCOPED_TRACE(oracle::describe(pattern));
    const auto previous = [&](Offset x, Offset stop) -> std::optional<Offset> {
      for (x = std::min(x, kMaxBytes - 1); x >= stop; --x) {
        if (const auto y = element->map(x)) return y;
      }
      return std::nullopt;
    };
    const auto next = [&](Offset x, Offset stop) -> std::optional<Offset> {
      for (; x < stop; ++x) {
        if (const auto y = element->map(x)) return y;
      }
      return std::nullopt;
    };
    const Offset periods = 2 * pattern.period + 2;
    for (Offset x = -1; x < pattern.disp + periods; ++x) {
      ASSERT_EQ(element->map_previous(x), previous(x, 0)) << x;
      ASSERT_EQ(element->map_next(x), next(x, pattern.disp + 2 * periods)) << x;
    }
    for (Offset back = 0; back < periods; ++back) {
      const Offset x = kMaxBytes - back;
      ASSERT_EQ(element->map_previous(x), previous(x, kMaxBytes - 2 * periods)) << "2^62 - " << back;
      ASSERT_EQ(element->map_next(x), next(x, kMaxBytes)) << "2^62 - " << back;
    }
    const Offset furthest = std::numeric_limits<Offset>::max();
    ASSERT_EQ(element->map_previous(furthest), previous(furthest, kMaxBytes - 2 * periods));
    ASSERT_EQ(element->map_next(std::numeric_limits<Offset>::min()), next(0, pattern.disp + 2 * periods));
    ASSERT_EQ(element->map_next(furthest), std::nullopt);
  });
}

TEST(ElementTest, NothingIsCountedOrCoveredBeyondTheFile) {
  const auto whole = Element::create({{0, 2, 0, 1, {}}}, {.disp = 1, .period = 3});
  ASSERT_THAT(whole, IsOk());
  EXPECT_EQ(whole->count_below(std::numeric_limits<Offset>::max()), kMaxBytes - 1);
  EXPECT_TRUE(whole->covers(1, kMaxBytes));
  EXPECT_FALSE(whole->covers(kMaxBytes - 1, kMaxBytes + 1));
  EXPECT_EQ(whole->segment_at(kMaxBytes - 3, 100), (Segment{kMaxBytes - 2, 2}));
  EXPECT_EQ(whole->segment_at(kMaxBytes - 1, 100).length, 0);
  EXPECT_FALSE(whole->is_contiguous(kMaxBytes - 3, kMaxBytes));
  // The same where the last period is cut, in another order than that of the file.
  const auto turned = Element::create({{2, 3, 0, 1, {}}, {0, 1, 0, 1, {}}}, {.disp = 2, .period = 4});
  ASSERT_THAT(turned, IsOk());
  EXPECT_EQ(turned->count_below(kMaxBytes + 100), kMaxBytes - 2);
  EXPECT_EQ(turned->segment_at(kMaxBytes - 4, 100).length, 0);  // these two bytes would lie beyond the end
  EXPECT_EQ(turned->segment_at(kMaxBytes - 2, 100), (Segment{kMaxBytes - 2, 2}));
}

TEST(ElementTest, TheEndOfTheFileCutsAnyOrder) {
  oracle::for_cases(1000, [](Random& random) {
    const Pattern pattern = oracle::random_pattern(random);
    const auto element = Element::create(pattern.set, pattern.placement());
    ASSERT_THAT(element, IsOk());
    SCOPED_TRACE(oracle::describe(pattern));
    ASSERT_EQ(element->limit(), element->count_below(kMaxBytes));
    // The last period is cut: of an order of its own, bytes beyond the end may come before bytes that are not.
    const Offset whole = (kMaxBytes - pattern.disp) / pattern.period;
    const oracle::Bytes bytes = oracle::expand(pattern.set);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const Offset x = pattern.disp + whole * pattern.period + bytes[i];
      const Offset y = whole * element->size() + static_cast<Offset>(i);
      ASSERT_EQ(element->map(x), x < kMaxBytes ? std::optional(y) : std::nullopt) << "x = 2^62 + " << x - kMaxBytes;
      ASSERT_EQ(element->unmap(y), x < kMaxBytes ? std::optional(x) : std::nullopt)
          << "byte " << i << " of the last period";
      ASSERT_EQ(element->unmap(y + element->size()), std::nullopt);
    }
  });
}

TEST(SegmentCursorTest, MergesAcrossPeriods) {
  const auto whole = Element::create({{0, 5, 0, 1, {}}}, {.disp = 3});
  ASSERT_THAT(whole, IsOk());
  SegmentCursor cursor(*whole, 2, 100);
  EXPECT_EQ(cursor.next(), (Segment{5, 98}));
  EXPECT_EQ(cursor.next(), std::nullopt);
  EXPECT_TRUE(whole->is_contiguous(0, Offset{1} << 50));
  EXPECT_TRUE(whole->covers(3, Offset{1} << 50));
  EXPECT_FALSE(whole->covers(2, Offset{1} << 50));
  EXPECT_EQ(whole->segment_at(7, kMaxBytes), (Segment{10, kMaxBytes - 10}));
}

TEST(SegmentCursorTest, FollowsAnOrderOfItsOwnIntoTheNextPeriod) {
  // 0 1 4 5 2 3 6 7 | 8 9 12 13 10 11 14 15 | ...: all bytes, but not in file order.
  const auto element = Element::create({{0, 5, 2, 2, {{0, 1, 4, 2, {}}}}}, {});
  ASSERT_THAT(element, IsOk());
  ASSERT_EQ(element->period(), 8);
  EXPECT_EQ(element->segment_at(6, 100), (Segment{6, 4}));
  EXPECT_TRUE(element->is_contiguous(6, 10));
  EXPECT_FALSE(element->is_contiguous(6, 11));
  SegmentCursor cursor(*element, 6, 17);
  for (const Segment& expected : {Segment{6, 4}, Segment{12, 2}, Segment{10, 2}, Segment{14, 3}}) {
    EXPECT_EQ(cursor.next(), expected);
  }
  EXPECT_EQ(cursor.next(), std::nullopt);
}

TEST(SegmentCursorTest, EndsAtTheLimit) {
  const auto element = Element::create({{0, 5, 0, 1, {}}}, {.period = 8});
  ASSERT_THAT(element, IsOk());
  SegmentCursor cursor(*element, element->limit() - 2, kMaxBytes);
  const auto segment = cursor.next();
  ASSERT_TRUE(segment.has_value());
  EXPECT_LE(segment->end(), kMaxBytes);
  EXPECT_EQ(segment->length, 2);
  EXPECT_EQ(cursor.next(), std::nullopt);
}

TEST(MapBetweenTest, IsTheCompositionOfUnmapAndMap) {
  oracle::for_cases(3000, [](Random& random) {
    const Pattern pa = oracle::random_pattern(random);
    const Pattern pb = oracle::random_pattern(random);
    const auto a = Element::create(pa.set, pa.placement());
    const auto b = Element::create(pb.set, pb.placement());
    ASSERT_THAT(a, IsOk());
    ASSERT_THAT(b, IsOk());
    const BruteElement brute_a(pa, 3);
    const BruteElement brute_b = BruteElement::reaching(pb, brute_a.end());
    for (Offset y = 0; y < brute_a.size(); ++y) {
      ASSERT_EQ(map_between(*a, y, *b), brute_b.map(brute_a.unmap(y)))
          << oracle::describe(pa) << " at " << y << " to " << oracle::describe(pb);
    }
    ASSERT_EQ(map_between(*a, -1, *b), std::nullopt);
  });
}

}  // namespace
}  // namespace weir::layout
