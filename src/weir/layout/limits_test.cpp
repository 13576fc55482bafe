// What happens at 2^62 bytes, beyond it, in deep trees and between periods that do not fit together.

#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/match.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using weir::testing::IsOk;
using weir::testing::StatusIs;

constexpr Offset kHuge = std::numeric_limits<Offset>::max();
constexpr Dist kWhole{Dist::Kind::kWhole, 0};
constexpr Dist kBlock{Dist::Kind::kBlock, 0};

constexpr Offset power(int exponent) { return Offset{1} << exponent; }

Partition matrix(Offset edge, std::vector<Dist> dist, std::vector<Offset> grid) {
  auto partition =
      Partition::create(Hpf{.shape = {edge, edge}, .elem = 4, .dist = std::move(dist), .grid = std::move(grid)});
  EXPECT_THAT(partition, IsOk());
  return *partition;
}

Element element_of(const Partition& partition, Offset index) {
  auto element = partition.element(index);
  EXPECT_THAT(element, IsOk());
  return element.is_ok() ? *element : Element{};
}

TEST(LimitsTest, TheLargestSegmentIsExact) {
  const FallsSet all = {{0, kMaxBytes - 1, 0, 1, {}}};
  ASSERT_THAT(check(all), IsOk());
  EXPECT_EQ(size(all), kMaxBytes);
  EXPECT_EQ(extent(all), kMaxBytes);
  const Element element = oracle::make(all, {});
  EXPECT_EQ(element.limit(), kMaxBytes);
  EXPECT_EQ(element.map(kMaxBytes - 1), kMaxBytes - 1);
  EXPECT_EQ(element.unmap(kMaxBytes - 1), kMaxBytes - 1);
  EXPECT_EQ(element.unmap(kMaxBytes), std::nullopt);
  EXPECT_EQ(element.count_below(kMaxBytes), kMaxBytes);
  EXPECT_TRUE(element.is_contiguous(0, kMaxBytes));
  EXPECT_TRUE(element.covers(0, kMaxBytes));
}

TEST(LimitsTest, TheLargestFamilyIsExact) {
  const Element odd = oracle::make({{1, 1, 2, power(61), {}}}, {});
  EXPECT_EQ(odd.size(), power(61));
  EXPECT_EQ(odd.map(kMaxBytes - 1), power(61) - 1);
  EXPECT_EQ(odd.map(kMaxBytes - 2), std::nullopt);
  EXPECT_EQ(odd.unmap(power(61) - 1), kMaxBytes - 1);
  EXPECT_EQ(odd.map_previous(kMaxBytes - 2), power(61) - 2);
  EXPECT_EQ(odd.limit(), power(61));
}

TEST(LimitsTest, AnArrayOfTheLargestSizeIsExact) {
  const Offset edge = power(30);
  const Partition columns = matrix(edge, {kWhole, kBlock}, {1, 4});
  EXPECT_EQ(columns.period(), kMaxBytes);
  EXPECT_THAT(columns.validate(), IsOk());
  const Element last = element_of(columns, 3);
  EXPECT_EQ(last.size(), power(60));
  EXPECT_EQ(last.map(kMaxBytes - 1), power(60) - 1);
  EXPECT_EQ(last.unmap(power(60) - 1), kMaxBytes - 1);
  EXPECT_EQ(last.map(kMaxBytes - 1 - edge), std::nullopt);  // a quarter row further left: the neighbour's last byte
  EXPECT_EQ(element_of(columns, 2).map(kMaxBytes - 1 - edge), power(60) - 1);
  const Offset row = 123456789;
  EXPECT_EQ(last.unmap(row * edge + 5), row * edge * 4 + 3 * edge + 5);
}

TEST(LimitsTest, WhatLeavesTheRangeIsRefused) {
  EXPECT_THAT(check({{0, 0, power(61), 4, {}}}), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(check({{0, 0, kHuge, kHuge, {}}}), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(check({{0, 0, 4, kHuge, {}}}), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(check({{kMaxBytes + 1, kMaxBytes + 1, 0, 1, {}}}), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(check({{0, kHuge, 0, 1, {}}}), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(check({{kHuge, kHuge, 0, 1, {}}}), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_FALSE(check({{-kHuge, kHuge, 0, 1, {}}}).is_ok());
  EXPECT_FALSE(check({{-kHuge - 1, kHuge, -kHuge - 1, -kHuge - 1, {}}}).is_ok());
  EXPECT_THAT(check({{power(61), kMaxBytes - 1, power(61), 3, {{0, 0, 0, 1, {}}}}}), StatusIs(ErrorCode::kOutOfRange));
}

TEST(LimitsTest, ASequenceThatIsTooLongIsRefused) {
  // Every byte lies in range, but they occur so often that their number does not.
  const Falls all{0, kMaxBytes - 1, 0, 1, {}};
  EXPECT_THAT(check(FallsSet(5, all)), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(check({{0, power(60), 1, power(60), {{0, power(60) - 1, 0, 1, {}}}}}), StatusIs(ErrorCode::kOutOfRange));
}

TEST(LimitsTest, PlacementsBeyondTheRangeAreRefused) {
  EXPECT_FALSE(Element::create({{0, 3, 0, 1, {}}}, {.disp = kHuge}).is_ok());
  EXPECT_FALSE(Element::create({{0, 3, 0, 1, {}}}, {.period = kHuge}).is_ok());
  EXPECT_FALSE(Element::create({{0, 3, 0, 1, {}}}, {.disp = -kHuge, .period = kHuge}).is_ok());
  EXPECT_THAT(Element::create({{0, 3, 0, 1, {}}}, {.disp = kMaxBytes - 2, .period = 4}),
              StatusIs(ErrorCode::kOutOfRange));
}

TEST(LimitsTest, TheLastPeriodMayBeCut) {
  const Element far = oracle::make({{0, 3, 0, 1, {}}}, {.disp = kMaxBytes - 7, .period = 5});
  EXPECT_EQ(far.limit(), 6);
  EXPECT_EQ(far.unmap(5), kMaxBytes - 1);
  EXPECT_EQ(far.unmap(6), std::nullopt);
  EXPECT_EQ(far.map_next(kMaxBytes - 3), 4);
  EXPECT_EQ(far.segment_at(4, 100), (Segment{kMaxBytes - 2, 2}));
}

TEST(LimitsTest, ArraysBeyondTheRangeAreRefused) {
  EXPECT_THAT(
      Partition::create(Hpf{.shape = {power(30), power(30)}, .elem = 8, .dist = {kWhole, kBlock}, .grid = {1, 4}}),
      StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(Partition::create(Stripe{.unit = power(40), .over = power(23)}), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(Partition::create(Tiles{.shape = {power(40), power(40)}, .tile = {1, 1}, .over = 4}),
              StatusIs(ErrorCode::kOutOfRange));
}

TEST(LimitsTest, DeepTreesAreRefusedEverywhere) {
  const FallsSet deep = oracle::chain(1000);
  EXPECT_THAT(check(deep), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Element::create(deep, {}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(Partition::create(Explicit{{deep}}), StatusIs(ErrorCode::kInvalidArgument));
}

TEST(LimitsTest, TheDeepestTreeWorks) {
  FallsSet set = {{0, 0, 0, 1, {}}};
  for (int i = 1; i < 60; ++i) {
    Falls outer{0, power(i) - 1, power(i - 1), 2, {}};
    if (i > 1) {
      outer.inner.swap(set);
      outer.right = power(i - 1) - 1;
    } else {
      outer.right = 0;
      outer.stride = 1;
    }
    set = {std::move(outer)};
  }
  ASSERT_THAT(check(set), IsOk());
  EXPECT_EQ(size(set), power(59));
  EXPECT_EQ(simplify(set), (FallsSet{{0, power(59) - 1, 0, 1, {}}}));
  const Element element = oracle::make(set, {});
  EXPECT_EQ(element.map(power(59) - 3), power(59) - 3);
  EXPECT_TRUE(element.is_contiguous(0, kMaxBytes));
}

TEST(LimitsTest, IntersectionsOfTheLargestArraysAreExact) {
  const Offset edge = power(30);
  const Element column = element_of(matrix(edge, {kWhole, kBlock}, {1, 4}), 2);
  const Element row = element_of(matrix(edge, {kBlock, kWhole}, {4, 1}), 3);
  const auto mapping = intersect(column, row);
  ASSERT_THAT(mapping, IsOk());
  EXPECT_EQ(mapping->bytes(), power(58));
  EXPECT_EQ(mapping->period(), kMaxBytes);
  EXPECT_LE(mapping->node_count(), 4u);
  const Offset left = 3 * power(60) + 2 * edge;
  EXPECT_EQ(mapping->file_falls(), (FallsSet{{left, left + edge - 1, 4 * edge, edge / 4, {}}}));
  EXPECT_EQ(mapping->a_falls(), (FallsSet{{3 * power(58), power(60) - 1, 0, 1, {}}}));
  EXPECT_EQ(mapping->b_falls(), (FallsSet{{2 * edge, 3 * edge - 1, 4 * edge, edge / 4, {}}}));
}

TEST(LimitsTest, DisplacedPatternsEndWithTheFile) {
  // The common period leaves the file: what there is of it lies below 2^62.
  const Element a = oracle::make({{0, 3, 0, 1, {}}}, {.disp = kMaxBytes - 10, .period = 8});
  const Element b = oracle::make({{0, 5, 0, 1, {}}}, {.disp = kMaxBytes - 12, .period = 6});
  std::vector<Piece> pieces;
  PieceCursor cursor(a, b, Order::kFile);
  while (const auto piece = cursor.next()) pieces.push_back(*piece);
  EXPECT_EQ(pieces, (std::vector<Piece>{{kMaxBytes - 10, 0, 2, 4}, {kMaxBytes - 2, 4, 10, 2}}));
}

struct Comb {
  Offset length;
  Offset period;
  Offset disp;
  [[nodiscard]] Element element() const {
    return oracle::make({{0, length - 1, 0, 1, {}}}, {.disp = disp, .period = period});
  }
};

/// Common pieces of two combs in [from, to), block by block of a.
std::vector<Piece> comb_pieces(const Comb& a, const Comb& b, Offset from, Offset to) {
  std::vector<Piece> out;
  for (Offset i = std::max<Offset>(0, floor_div(from - a.disp, a.period)); a.disp + i * a.period < to; ++i) {
    const Offset left = std::max(from, a.disp + i * a.period);
    const Offset right = std::min(to, a.disp + i * a.period + a.length);
    for (Offset k = std::max<Offset>(0, floor_div(left - b.disp, b.period)); b.disp + k * b.period < right; ++k) {
      const Offset start = std::max(left, b.disp + k * b.period);
      const Offset end = std::min(right, b.disp + k * b.period + b.length);
      if (start >= end) continue;
      out.push_back({start, i * a.length + start - (a.disp + i * a.period),
                     k * b.length + start - (b.disp + k * b.period), end - start});
    }
  }
  return out;
}

void expect_window(const Comb& a, const Comb& b, Offset from, Offset to) {
  SCOPED_TRACE(concat("window [", from, ", ", to, ")"));
  const std::vector<Piece> expected = comb_pieces(a, b, from, to);
  for (const Order order : {Order::kFile, Order::kA, Order::kB}) {
    std::vector<Piece> walked;
    PieceCursor cursor(a.element(), b.element(), order, {.file = {from, to}, .a = {}, .b = {}});
    while (const auto piece = cursor.next()) walked.push_back(*piece);
    ASSERT_EQ(walked, expected);  // monotone elements: the same in every order
  }
}

TEST(LimitsTest, CoprimePeriodsWorkOnTheRangeAskedFor) {
  const Comb a{.length = power(30), .period = power(31) - 1, .disp = 17};
  const Comb b{.length = power(30) + 5, .period = power(32) - 5, .disp = 1000};
  EXPECT_THAT(intersect(a.element(), b.element()), StatusIs(ErrorCode::kTooComplex));
  expect_window(a, b, 0, power(36));
  expect_window(a, b, power(60) + 12345, power(60) + power(37));
  expect_window(a, b, kMaxBytes - power(36), kMaxBytes);
  const auto mapping =
      intersect(a.element(), b.element(), {.file = {power(50), power(50) + power(36)}, .a = {}, .b = {}});
  ASSERT_THAT(mapping, IsOk());
  Offset bytes = 0;
  for (const Piece& piece : comb_pieces(a, b, power(50), power(50) + power(36))) bytes += piece.length;
  EXPECT_EQ(mapping->bytes(), bytes);
}

TEST(LimitsTest, ACommonPeriodBeyondTheFileIsRefused) {
  // Above 2^62, though an Offset could hold it.
  const auto a = Element::create({{0, 0, 0, 1, {}}}, {.period = (Offset{1} << 31) + 1});
  const auto b = Element::create({{0, 0, 0, 1, {}}}, {.period = (Offset{1} << 31) + 3});
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_THAT(intersect(*a, *b), StatusIs(ErrorCode::kTooComplex, ::testing::HasSubstr("2^62")));
}

TEST(LimitsTest, NothingIsCommonBeyondTheFile) {
  // One period of both is as long as the file, and begins at byte 100: what comes round lies beyond the end.
  const auto head = Element::create({{0, 9, 0, 1, {}}}, {.period = kMaxBytes});
  const auto rest = Element::create({{0, 0, 0, 1, {}}}, {.disp = 100, .period = 1});
  ASSERT_THAT(head, IsOk());
  ASSERT_THAT(rest, IsOk());
  const auto common = intersect(*head, *rest);
  ASSERT_THAT(common, IsOk());
  EXPECT_TRUE(common->is_empty());
  EXPECT_EQ(common->bytes(), 0);
}

TEST(LimitsTest, CoprimePeriodsOfManyBlocksStayWithinTheBudget) {
  const Comb a{.length = 40000, .period = 65537, .disp = 0};
  const Comb b{.length = 30000, .period = 65539, .disp = 3};
  const auto mapping = intersect(a.element(), b.element(), Budget{.runs = 1000, .steps = 100000});
  if (mapping.is_ok()) {
    EXPECT_LE(mapping->runs().size(), 1000u);
  } else {
    EXPECT_THAT(mapping, StatusIs(ErrorCode::kTooComplex));
  }
  expect_window(a, b, 0, 65537 * 100);
  expect_window(a, b, Offset{65537} * 40000 + 11, Offset{65537} * 40100);
}

TEST(LimitsTest, AWalkOverHugeBlocksIsAsShortAsItsPieces) {
  const Comb a{.length = 3, .period = power(20) + 7, .disp = 0};
  const Comb b{.length = power(19), .period = power(20), .disp = 0};
  expect_window(a, b, 0, power(32));
}

TEST(LimitsTest, WhatContinuesForEverIsOnePieceAtOnce) {
  const auto stripes = Partition::create(Stripe{.unit = 64, .over = 4});
  ASSERT_THAT(stripes, IsOk());
  const Element a = element_of(*stripes, 1);
  for (const Order order : {Order::kA, Order::kB}) {
    PieceCursor bounded(a, a, order, {.file = {}, .a = {10, power(50)}, .b = {}});
    EXPECT_EQ(bounded.next(), (Piece{74, 10, 10, power(50) - 10}));
    EXPECT_EQ(bounded.next(), std::nullopt);
    PieceCursor endless(a, a, order);
    EXPECT_EQ(endless.next(), (Piece{64, 0, 0, a.limit()}));
    EXPECT_EQ(endless.next(), std::nullopt);
  }
}

TEST(LimitsTest, WhatContinuesForEverIsOnePieceWhateverThePeriods) {
  const Comb whole{.length = 4, .period = 4, .disp = 3};
  const Comb other{.length = 5, .period = 5, .disp = 10};
  for (const Order order : {Order::kFile, Order::kA, Order::kB}) {
    PieceCursor cursor(whole.element(), other.element(), order);
    EXPECT_EQ(cursor.next(), (Piece{10, 7, 0, kMaxBytes - 10}));
    EXPECT_EQ(cursor.next(), std::nullopt);
  }
  // The same bytes, described once with two blocks and once with three.
  const Element two = oracle::make({{64, 127, 256, 2, {}}}, {.disp = 0, .period = 512});
  const Element three = oracle::make({{64, 127, 256, 3, {}}}, {.disp = 0, .period = 768});
  for (const Order order : {Order::kA, Order::kB}) {
    PieceCursor cursor(two, three, order, {.file = {}, .a = {10, power(50)}, .b = {}});
    EXPECT_EQ(cursor.next(), (Piece{74, 10, 10, power(50) - 10}));
    EXPECT_EQ(cursor.next(), std::nullopt);
  }
}

TEST(LimitsTest, ARecordFieldAgainstStripesIsAHandfulOfNodes) {
  const Element field = oracle::make({{0, 3, 0, 1, {}}}, {.period = 12});
  const auto stripes = Partition::create(Stripe{.unit = power(16), .over = 4});
  ASSERT_THAT(stripes, IsOk());
  Offset bytes = 0;
  for (Offset i = 0; i < 4; ++i) {
    const auto mapping = intersect(field, element_of(*stripes, i));
    ASSERT_THAT(mapping, IsOk());
    EXPECT_LE(mapping->node_count(), 60u) << "stripe " << i;
    EXPECT_LE(node_count(mapping->file_falls()), 60);
    EXPECT_LE(node_count(mapping->a_falls()), 60);
    EXPECT_LE(node_count(mapping->b_falls()), 60);
    bytes += mapping->bytes();
  }
  EXPECT_EQ(bytes, std::lcm(Offset{12}, 4 * power(16)) / 3);
}

/// Nodes of the intersections of all pairs, summed.
std::size_t nodes_of(const Partition& first, const Partition& second) {
  std::size_t nodes = 0;
  for (Offset i = 0; i < first.element_count(); ++i) {
    for (Offset k = 0; k < second.element_count(); ++k) {
      const auto mapping = intersect(element_of(first, i), element_of(second, k));
      EXPECT_THAT(mapping, IsOk());
      if (mapping.is_ok()) nodes += mapping->node_count();
    }
  }
  return nodes;
}

TEST(LimitsTest, NodesOfColumnBlocksAgainstStripesDoNotGrow) {
  const auto stripes = Partition::create(Stripe{.unit = power(16), .over = 4});
  ASSERT_THAT(stripes, IsOk());
  for (int exponent = 8; exponent <= 30; ++exponent) {
    const std::size_t nodes = nodes_of(matrix(power(exponent), {kWhole, kBlock}, {1, 4}), *stripes);
    EXPECT_LE(nodes, 16u * 8) << "edge 2^" << exponent;
  }
}

TEST(LimitsTest, NodesOfCyclicAgainstBlockDoNotGrow) {
  const std::vector<Dist> cyclic = {{Dist::Kind::kCyclic, 3}, {Dist::Kind::kCyclic, 5}};
  const std::vector<Offset> grid = {2, 2};
  const std::size_t first = nodes_of(matrix(power(8), cyclic, grid), matrix(power(8), {kBlock, kBlock}, grid));
  EXPECT_LE(first, 16u * 40);
  for (int exponent = 9; exponent <= 30; ++exponent) {
    const std::size_t nodes =
        nodes_of(matrix(power(exponent), cyclic, grid), matrix(power(exponent), {kBlock, kBlock}, grid));
    EXPECT_LE(nodes, 2 * first) << "edge 2^" << exponent;  // heads and tails vary, families do not
  }
}

}  // namespace
}  // namespace weir::layout
