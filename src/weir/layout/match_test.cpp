#include <weir/layout/match.h>

#include <numeric>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::BruteElement;
using oracle::Pattern;
using oracle::Random;
using weir::testing::IsOk;

Element view_of(FallsSet set, Element::Placement placement) {
  auto element = Element::create(std::move(set), placement);
  EXPECT_THAT(element, IsOk());
  return element.is_ok() ? *element : Element{};
}

Partition stripe(Offset unit, Offset over) {
  auto partition = Partition::create(Stripe{.unit = unit, .over = over});
  EXPECT_THAT(partition, IsOk());
  return *partition;
}

Match matched(const Element& view, const Partition& layout) {
  const auto result = match(view, layout);
  EXPECT_THAT(result, IsOk());
  return result.is_ok() ? *result : Match{.degree = -1};
}

double degree_of(const oracle::BruteMatch& brute, Offset subfiles) {
  return 1 /
         (1 + static_cast<double>(kBreakBytes) * static_cast<double>(brute.breaks) / static_cast<double>(brute.bytes) +
          static_cast<double>(brute.targets - 1) / static_cast<double>(subfiles));
}

TEST(MatchTest, IsOneForASubfileSeenAsItIs) {
  const Partition layout = stripe(64, 4);
  for (Offset i = 0; i < 4; ++i) {
    const auto subfile = layout.element(i);
    ASSERT_THAT(subfile, IsOk());
    const Match m = matched(*subfile, layout);
    EXPECT_EQ(m.degree, 1);
    EXPECT_EQ(m.breaks, 0);
    EXPECT_EQ(m.targets, 1);
    EXPECT_TRUE(m.is_exact);
  }
}

TEST(MatchTest, IsOneForAnyViewOfASingleContiguousSubfile) {
  EXPECT_EQ(matched(view_of({{0, 9, 0, 1, {}}}, {}), stripe(64, 1)).degree, 1);
  EXPECT_EQ(matched(view_of({{0, 9, 0, 1, {}}}, {.disp = 3}), stripe(7, 1)).degree, 1);
}

TEST(MatchTest, IsOneForTheEmptyView) { EXPECT_EQ(matched(Element{}, stripe(64, 4)).degree, 1); }

TEST(MatchTest, CountsTheWholeFileAgainstStripes) {
  const Match m = matched(view_of({{0, 255, 0, 1, {}}}, {}), stripe(64, 4));
  EXPECT_EQ(m.bytes, 256);
  EXPECT_EQ(m.breaks, 4);
  EXPECT_EQ(m.targets, 4);
  EXPECT_LT(m.degree, 1);
}

TEST(MatchTest, FallsWithTheNumberOfPieces) {
  double last = 2;
  for (const Offset unit : {4096, 1024, 256, 64, 16, 4, 1}) {
    const double degree = matched(view_of({{0, 4095, 0, 1, {}}}, {}), stripe(unit, 4)).degree;
    EXPECT_LT(degree, last) << "unit " << unit;
    EXPECT_GT(degree, 0);
    last = degree;
  }
}

TEST(MatchTest, FallsWithTheNumberOfTargets) {
  // Four blocks of 32 bytes in every case; they lie on one, two or four of the four targets.
  const Partition layout = stripe(64, 4);
  const double one = matched(view_of({{0, 31, 256, 4, {}}}, {.period = 1024}), layout).degree;
  const double two = matched(view_of({{0, 31, 64, 2, {}}, {512, 543, 64, 2, {}}}, {.period = 1024}), layout).degree;
  const double four = matched(view_of({{0, 31, 64, 4, {}}}, {.period = 1024}), layout).degree;
  EXPECT_GT(one, two);
  EXPECT_GT(two, four);
}

struct MatchCase {
  Pattern view;
  std::vector<FallsSet> sets;
  Offset disp;
  Offset period;
  Partition layout;
  Element element;
};

MatchCase make_case(Random& random, bool below) {
  Pattern view = oracle::random_pattern(random, {.max_period = 36});
  const Offset period = random.between(1, 30);
  auto sets = oracle::random_partition(random, period, random.between(1, 4));
  if (random.chance(15)) {  // a view that is a subfile
    const auto i = static_cast<std::size_t>(random.between(0, static_cast<Offset>(sets.size()) - 1));
    view = {sets[i], 0, period};
  }
  Offset disp = random.between(0, 10);
  if (below) {
    view.disp = random.between(0, 10);
    disp = view.disp + random.between(1, 30);
  } else if (view.disp < disp) {
    view.disp = disp + (random.chance(50) ? 0 : random.between(0, 8));
  }
  auto layout = Partition::create(Explicit{sets}, {.disp = disp, .period = period});
  EXPECT_THAT(layout, IsOk());
  auto element = Element::create(view.set, view.placement());
  EXPECT_THAT(element, IsOk());
  return {std::move(view), std::move(sets), disp, period, *layout, *element};
}

std::vector<BruteElement> tables(const MatchCase& c, Offset end) {
  std::vector<BruteElement> out;
  for (const FallsSet& set : c.sets) out.push_back(BruteElement::reaching({set, c.disp, c.period}, end));
  return out;
}

std::string describe(const MatchCase& c) {
  std::string out =
      oracle::describe(c.view) + " in disp " + std::to_string(c.disp) + " period " + std::to_string(c.period);
  for (const FallsSet& set : c.sets) out += " | " + oracle::describe(set);
  return out;
}

TEST(MatchTest, CountsLikeListing) {
  int perfect = 0;
  oracle::for_cases(4000, [&](Random& random) {
    const MatchCase c = make_case(random, false);
    SCOPED_TRACE(describe(c));
    if (c.element.is_empty()) return;
    const Offset common = std::lcm(c.view.period, c.period);
    const Offset bytes = common / c.view.period * c.element.size();
    const BruteElement view = BruteElement::reaching(c.view, c.view.disp + 4 * common);
    const auto subfiles = tables(c, view.end());
    const oracle::BruteMatch brute = oracle::match(view, subfiles, bytes);
    const Match m = matched(c.element, c.layout);
    ASSERT_TRUE(m.is_exact);
    ASSERT_EQ(m.bytes, brute.bytes);
    ASSERT_EQ(m.breaks, brute.breaks);
    ASSERT_EQ(m.targets, brute.targets);
    ASSERT_NEAR(m.degree, degree_of(brute, static_cast<Offset>(c.sets.size())), 1e-12);
    const oracle::BruteMatch ever = oracle::match(view, subfiles, 3 * bytes);
    ASSERT_EQ(m.degree == 1, ever.breaks == 0 && ever.targets == 1);
    ASSERT_GT(m.degree, 0);
    ASSERT_LE(m.degree, 1);
    perfect += m.degree == 1 ? 1 : 0;
  });
  EXPECT_GT(perfect, 50);
}

TEST(MatchTest, IsBelowOneWhereAViewStartsBeforeTheLayout) {
  oracle::for_cases(2000, [](Random& random) {
    const MatchCase c = make_case(random, true);
    SCOPED_TRACE(describe(c));
    if (c.element.is_empty()) return;
    const Offset common = std::lcm(c.view.period, c.period);
    const BruteElement view = BruteElement::reaching(c.view, c.disp + 4 * common);
    const auto subfiles = tables(c, view.end());
    // From the first byte on, so that the step from below the layout into it counts.
    const oracle::BruteMatch ever = oracle::match(view, subfiles, view.size() - 2 * c.element.size());
    const Match m = matched(c.element, c.layout);
    ASSERT_EQ(m.degree == 1, ever.breaks == 0 && ever.targets == 1);
    ASSERT_GT(m.degree, 0);
    ASSERT_LE(m.degree, 1);
  });
}

TEST(MatchTest, IsQuickForHugeArrays) {
  const Offset edge = Offset{1} << 28;
  const auto views = Partition::create(Hpf{
      .shape = {edge, edge}, .elem = 8, .dist = {{Dist::Kind::kWhole, 0}, {Dist::Kind::kBlock, 0}}, .grid = {1, 4}});
  ASSERT_THAT(views, IsOk());
  const auto view = views->element(1);
  ASSERT_THAT(view, IsOk());
  const Match columns = matched(*view, *views);
  EXPECT_EQ(columns.degree, 1);
  EXPECT_EQ(columns.bytes, edge * edge * 2);
  const auto rows = Partition::create(Hpf{
      .shape = {edge, edge}, .elem = 8, .dist = {{Dist::Kind::kBlock, 0}, {Dist::Kind::kWhole, 0}}, .grid = {4, 1}});
  ASSERT_THAT(rows, IsOk());
  const Match poor = matched(*view, *rows);
  EXPECT_EQ(poor.targets, 4);
  EXPECT_EQ(poor.breaks, edge);  // a quarter of every row, then on to the next row
  EXPECT_LT(poor.degree, 1);
}

TEST(MatchTest, IsASampleWhereTheCommonPeriodIsTooComplex) {
  const Element view = view_of({{0, 3, 0, 1, {}}}, {.period = (Offset{1} << 31) - 1});
  const auto layout = Partition::create(Stripe{.unit = (Offset{1} << 19) - 1, .over = 127});
  ASSERT_THAT(layout, IsOk());
  const Match m = matched(view, *layout);
  EXPECT_GT(m.degree, 0);
  EXPECT_LE(m.degree, 1);
}

}  // namespace
}  // namespace weir::layout
