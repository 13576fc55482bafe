#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/mapping.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::BruteElement;
using oracle::Pattern;
using oracle::Random;
using weir::testing::IsOk;

constexpr Order kOrders[] = {Order::kFile, Order::kA, Order::kB};
constexpr Budget kTiny{.runs = 4, .steps = 64};

struct CursorSide {
  Pattern pattern;
  Element element;
};

CursorSide make_cursor_side(Random& random) {
  if (random.chance(25)) {
    const auto partition = Partition::create(oracle::random_description(random), {.disp = random.between(0, 20)});
    EXPECT_THAT(partition, IsOk());
    const auto element = partition->element(random.between(0, partition->element_count() - 1));
    EXPECT_THAT(element, IsOk());
    return {oracle::pattern_of(*element), *element};
  }
  Pattern pattern = oracle::random_pattern(random, {.max_period = 36, .max_disp = 40});
  const auto element = Element::create(pattern.set, pattern.placement());
  EXPECT_THAT(element, IsOk()) << oracle::describe(pattern);
  return {std::move(pattern), *element};
}

std::vector<Piece> walk(PieceCursor cursor, std::size_t most = 100000) {
  std::vector<Piece> out;
  while (out.size() < most) {
    const auto piece = cursor.next();
    if (!piece) break;
    out.push_back(*piece);
  }
  return out;
}

std::string describe(const Window& window) {
  return concat("file [", window.file.from, ", ", window.file.to, ") a [", window.a.from, ", ", window.a.to, ") b [",
                window.b.from, ", ", window.b.to, ")");
}

struct CursorCase {
  CursorSide a;
  CursorSide b;
  Window window;
  BruteElement brute_a;
  BruteElement brute_b;
};

CursorCase make_case(Random& random) {
  CursorSide a = make_cursor_side(random);
  CursorSide b = make_cursor_side(random);
  const Offset end = random.between(0, 300);
  // A byte of element range [0, count_below(end)) lies below end + one period, in the file.
  const Offset reach = end + 2 * (a.pattern.period + b.pattern.period);
  BruteElement brute_a = BruteElement::reaching(a.pattern, reach);
  BruteElement brute_b = BruteElement::reaching(b.pattern, reach);
  Window window;
  const Offset bounded = random.between(1, 7);
  if (bounded & 1) window.file = oracle::random_range(random, end);
  if (bounded & 2) window.a = oracle::random_range(random, brute_a.count_below(end));
  if (bounded & 4) window.b = oracle::random_range(random, brute_b.count_below(end));
  return {std::move(a), std::move(b), window, std::move(brute_a), std::move(brute_b)};
}

void expect_walk(const CursorCase& c, const Budget& budget) {
  SCOPED_TRACE(oracle::describe(c.a.pattern) + " and " + oracle::describe(c.b.pattern));
  SCOPED_TRACE(describe(c.window));
  const auto bytes = oracle::common_bytes(c.brute_a, c.brute_b, c.window);
  for (const Order order : kOrders) {
    const auto walked = walk(PieceCursor(c.a.element, c.b.element, order, c.window, budget));
    ASSERT_EQ(walked, oracle::pieces(bytes, order)) << "order " << static_cast<int>(order);
  }
}

TEST(PieceCursorTest, WalksMaximalPiecesInEveryOrder) {
  oracle::for_cases(6000, [](Random& random) { expect_walk(make_case(random), {}); });
}

TEST(PieceCursorTest, GivesTheSameWithATinyBudget) {
  oracle::for_cases(4000, [](Random& random) { expect_walk(make_case(random), kTiny); });
}

TEST(PieceCursorTest, StartsAWalkThatHasNoEnd) {
  oracle::for_cases(1500, [](Random& random) {
    const CursorSide a = make_cursor_side(random);
    const CursorSide b = make_cursor_side(random);
    SCOPED_TRACE(oracle::describe(a.pattern) + " and " + oracle::describe(b.pattern));
    constexpr Offset kEnd = 500;
    const BruteElement brute_a = BruteElement::reaching(a.pattern, kEnd + 200);
    const BruteElement brute_b = BruteElement::reaching(b.pattern, kEnd + 200);
    for (const Order order : kOrders) {
      Window window;  // what the oracle can see; the cursor walks without one
      if (order == Order::kFile) window.file = {0, kEnd};
      if (order == Order::kA) window.a = {0, brute_a.count_below(kEnd)};
      if (order == Order::kB) window.b = {0, brute_b.count_below(kEnd)};
      const auto expected = oracle::pieces(oracle::common_bytes(brute_a, brute_b, window), order);
      if (expected.empty()) continue;  // the walk might search to the end of the file
      const auto walked = walk(PieceCursor(a.element, b.element, order), expected.size());
      ASSERT_EQ(walked.size(), expected.size());
      for (std::size_t i = 0; i + 1 < expected.size(); ++i) ASSERT_EQ(walked[i], expected[i]) << i;
      ASSERT_EQ(walked.back().file, expected.back().file);
      ASSERT_EQ(walked.back().a, expected.back().a);
      ASSERT_EQ(walked.back().b, expected.back().b);
      ASSERT_GE(walked.back().length, expected.back().length);  // the oracle's window may cut the last one
    }
  });
}

TEST(PieceCursorTest, FindsNothingAtOnceWhereNothingIs) {
  const Element even = oracle::make({{0, 0, 0, 1, {}}}, {.period = 2});
  const Element odd = oracle::make({{1, 1, 0, 1, {}}}, {.period = 2});
  for (const Order order : kOrders) {
    EXPECT_EQ(PieceCursor(even, odd, order).next(), std::nullopt);
    EXPECT_EQ(PieceCursor(even, Element{}, order).next(), std::nullopt);
    EXPECT_EQ(PieceCursor(Element{}, odd, order).next(), std::nullopt);
  }
}

TEST(PieceCursorTest, JoinsWhatContinuesInBothElementsThoughNotInTheFile) {
  const Element a = oracle::make({{0, 3, 0, 1, {}}}, {.period = 8});
  const Window window{.file = {}, .a = {1, 11}, .b = {}};
  EXPECT_EQ(walk(PieceCursor(a, a, Order::kA, window)), (std::vector<Piece>{{1, 1, 1, 10}}));
  EXPECT_EQ(walk(PieceCursor(a, a, Order::kB, window)), (std::vector<Piece>{{1, 1, 1, 10}}));
  EXPECT_EQ(walk(PieceCursor(a, a, Order::kFile, window)),
            (std::vector<Piece>{{1, 1, 1, 3}, {8, 4, 4, 4}, {16, 8, 8, 3}}));
}

TEST(PieceCursorTest, WalksATransposedElementInItsOwnOrder) {
  const Element columns = oracle::make({{0, 8, 1, 3, {{0, 0, 3, 3, {}}}}}, {.period = 9});  // a 3 x 3 array by columns
  const Element rows = oracle::make({{0, 8, 0, 1, {}}}, {.period = 9});
  const Window window{.file = {3, 9}, .a = {}, .b = {}};
  EXPECT_EQ(walk(PieceCursor(columns, rows, Order::kA, window)),
            (std::vector<Piece>{{3, 1, 3, 1}, {6, 2, 6, 1}, {4, 4, 4, 1}, {7, 5, 7, 1}, {5, 7, 5, 1}, {8, 8, 8, 1}}));
  EXPECT_EQ(walk(PieceCursor(columns, rows, Order::kB, window)),
            (std::vector<Piece>{{3, 1, 3, 1}, {4, 4, 4, 1}, {5, 7, 5, 1}, {6, 2, 6, 1}, {7, 5, 7, 1}, {8, 8, 8, 1}}));
}

TEST(PieceCursorTest, IsMovable) {
  const Element a = oracle::make({{0, 3, 0, 1, {}}}, {.period = 8});
  const Element b = oracle::make({{2, 5, 0, 1, {}}}, {.period = 8});
  PieceCursor first(a, b, Order::kFile);
  EXPECT_EQ(first.next(), (Piece{2, 2, 0, 2}));
  PieceCursor second(std::move(first));
  EXPECT_EQ(second.next(), (Piece{10, 6, 4, 2}));
  PieceCursor third(b, a, Order::kFile);
  third = std::move(second);
  EXPECT_EQ(third.next(), (Piece{18, 10, 8, 2}));
}

}  // namespace
}  // namespace weir::layout
