#include <weir/transfer/plan.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/layout/testing/generate.h>

namespace weir::transfer {
namespace {

using layout::Element;
using layout::FallsSet;
using layout::Mapping;
using layout::Partition;
using layout::oracle::BruteElement;
using layout::oracle::Common;
using layout::oracle::for_cases;
using layout::oracle::Pattern;
using layout::oracle::Random;
using weir::testing::IsOk;
using weir::testing::StatusIs;

// What a plan is to do, byte by byte.
struct Move {
  Offset key;
  Offset source;
  Offset target;
};

// A plan and the moves of its first periods.
struct Case {
  Plan plan;
  std::vector<Move> moves;       // of keys [0, end), sorted by key
  std::vector<Move> one_period;  // or all of a finite plan
  Offset end = 0;
};

struct Hull {
  Offset from = 0;
  Offset to = 0;
  [[nodiscard]] Offset size() const { return to - from; }
};

Hull hull_of(std::span<const Move> moves, Offset Move::*side) {
  if (moves.empty()) return {};
  const auto [least, most] = std::minmax_element(moves.begin(), moves.end(),
                                                 [side](const Move& x, const Move& y) { return x.*side < y.*side; });
  return {*least.*side, *most.*side + 1};
}

bool follows(const Move& move, const Move& last) {
  return move.source == last.source + 1 && move.target == last.target + 1;
}

Offset count_pieces(std::span<const Move> moves) {
  Offset pieces = moves.empty() ? 0 : 1;
  for (std::size_t i = 1; i < moves.size(); ++i) pieces += follows(moves[i], moves[i - 1]) ? 0 : 1;
  return pieces;
}

std::size_t index(Offset offset) { return static_cast<std::size_t>(offset); }

std::vector<std::byte> noise(Random& random, Offset size) {
  std::vector<std::byte> bytes(index(size));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits() >> 17);
  return bytes;
}

RunOptions random_options(Random& random) {
  RunOptions options;
  options.threads = random.chance(85) ? 1 : static_cast<int>(random.between(2, 3));
  if (random.chance(60)) options.bypass_cache = random.chance(50);
  return options;
}

std::string describe(Range range, const RunOptions& options) {
  return concat("range [", range.from, ", ", range.to, "), ", options.threads, " threads, bypass ",
                options.bypass_cache ? (*options.bypass_cache ? "on" : "off") : "unset");
}

// Runs one range.  The source is just as long as what is read, so that an address sanitizer sees a byte too many; the
// target has guard bytes around and keeps, between what is written, what it held before.
void expect_range(const Case& test, Range range, const RunOptions& options, Random& random) {
  const auto below = [](const Move& move, Offset key) { return move.key < key; };
  const auto first = std::lower_bound(test.moves.begin(), test.moves.end(), range.from, below);
  const auto last = std::lower_bound(first, test.moves.end(), range.to, below);
  const std::span<const Move> moves(first, last);
  const Hull read = hull_of(moves, &Move::source);
  const Hull written = hull_of(moves, &Move::target);
  const Offset skew = random.between(0, 63);
  const Offset guard = 64 + random.between(0, 63);
  const std::vector<std::byte> source = noise(random, skew + read.size());
  std::vector<std::byte> target = noise(random, guard + written.size() + 64);
  std::vector<std::byte> expected = target;
  for (const Move& move : moves) {
    expected[index(guard + move.target - written.from)] = source[index(skew + move.source - read.from)];
  }
  test.plan.run({source.data() + skew, read.from}, {target.data() + guard, written.from}, range, options);
  if (target == expected) return;
  const auto wrong = std::mismatch(target.begin(), target.end(), expected.begin()).first - target.begin();
  FAIL() << describe(range, options) << ": first wrong byte at target offset " << wrong - guard + written.from
         << " of [" << written.from << ", " << written.to << "); source skewed by " << skew << ", target by " << guard;
}

void expect_ranges(const Case& test, Random& random, int ranges) {
  expect_range(test, {0, test.end}, {}, random);
  for (int i = 0; i < ranges && !::testing::Test::HasFatalFailure(); ++i) {
    Range range = layout::oracle::random_range(random, test.end);
    if (random.chance(20)) range.to = std::min(test.end, range.from + random.between(0, 9));
    expect_range(test, range, random_options(random), random);
  }
}

void expect_numbers(const Case& test) {
  EXPECT_EQ(test.plan.bytes(), static_cast<Offset>(test.one_period.size()));
  EXPECT_EQ(test.plan.working_set(),
            hull_of(test.one_period, &Move::source).size() + hull_of(test.one_period, &Move::target).size());
  // Families that continue each other at one turn only may count twice.
  EXPECT_GE(test.plan.pieces(), count_pieces(test.one_period));
  EXPECT_LE(test.plan.pieces(), std::max<Offset>(test.plan.bytes(), 1));
  EXPECT_EQ(test.plan.is_contiguous(), count_pieces(test.moves) <= 1);
}

std::vector<Move> first_moves(const std::vector<Move>& moves, Offset count) {
  return {moves.begin(), moves.begin() + count};
}

Case make_gather(const Pattern& pattern, const Element& element, Offset periods) {
  const BruteElement brute(pattern, periods);
  auto plan = Plan::gather(element);
  EXPECT_THAT(plan, IsOk());
  Case test{std::move(plan).value(), {}, {}, brute.size()};
  for (Offset y = 0; y < brute.size(); ++y) test.moves.push_back({y, brute.unmap(y), y});
  test.one_period = first_moves(test.moves, brute.per_period());
  return test;
}

Case make_scatter(const Pattern& pattern, const Element& element, Offset periods) {
  const BruteElement brute(pattern, periods);
  auto plan = Plan::scatter(element);
  EXPECT_THAT(plan, IsOk());
  Case test{std::move(plan).value(), {}, {}, brute.size()};
  for (Offset y = 0; y < brute.size(); ++y) test.moves.push_back({y, y, brute.unmap(y)});
  test.one_period = first_moves(test.moves, brute.per_period());
  return test;
}

std::vector<Move> moves_of(const std::vector<Common>& bytes) {
  std::vector<Move> moves;
  for (const Common& byte : bytes) moves.push_back({byte.a, byte.a, byte.b});
  std::sort(moves.begin(), moves.end(), [](const Move& x, const Move& y) { return x.key < y.key; });
  return moves;
}

// Periodic mapping of a to b.  Keys up to what the tables of both know.
Case make_copy(const Pattern& a, const Pattern& b, const Mapping& mapping, Offset periods) {
  const Offset end = mapping.disp() + periods * std::lcm(a.period, b.period);  // whole periods of both
  const BruteElement brute_a = BruteElement::reaching(a, end);
  const BruteElement brute_b = BruteElement::reaching(b, end);
  auto plan = Plan::copy(mapping);
  EXPECT_THAT(plan, IsOk());
  // A mapping knows nothing of bytes below the larger displacement.
  Case test{std::move(plan).value(),
            moves_of(common_bytes(brute_a, brute_b, {.file = {mapping.disp(), end}, .a = {}, .b = {}})),
            {},
            0};
  test.one_period = moves_of(
      common_bytes(brute_a, brute_b, {.file = {mapping.disp(), mapping.disp() + mapping.period()}, .a = {}, .b = {}}));
  // A period of a that is not wholly in the tables holds keys that the plan moves and the tables miss.
  const Offset a_periods = (end - a.disp) / a.period;
  test.end = std::max<Offset>(0, a_periods * brute_a.per_period());
  std::erase_if(test.moves, [&](const Move& move) { return move.key >= test.end; });
  return test;
}

Case make_window_copy(const Pattern& a, const Pattern& b, const Mapping& mapping, const layout::Window& window) {
  auto plan = Plan::copy(mapping);
  EXPECT_THAT(plan, IsOk());
  const BruteElement brute_a = BruteElement::reaching(a, window.file.to);
  const BruteElement brute_b = BruteElement::reaching(b, window.file.to);
  Case test{std::move(plan).value(), moves_of(common_bytes(brute_a, brute_b, window)), {}, brute_a.size()};
  test.one_period = test.moves;
  return test;
}

Element make_element(const Pattern& pattern) {
  auto element = Element::create(pattern.set, pattern.placement());
  EXPECT_THAT(element, IsOk()) << describe(pattern);
  return element.is_ok() ? *element : Element();
}

void expect_element(const Pattern& pattern, Random& random, Offset periods, int ranges) {
  SCOPED_TRACE(describe(pattern));
  const Element element = make_element(pattern);
  for (const bool is_gather : {true, false}) {
    SCOPED_TRACE(is_gather ? "gather" : "scatter");
    const Case test = is_gather ? make_gather(pattern, element, periods) : make_scatter(pattern, element, periods);
    expect_numbers(test);
    expect_ranges(test, random, ranges);
    if (::testing::Test::HasFailure()) return;
  }
}

void expect_copy(const Pattern& a, const Pattern& b, Random& random, int ranges) {
  SCOPED_TRACE(concat("a = ", describe(a), "\nb = ", describe(b)));
  const Element a_element = make_element(a);
  const Element b_element = make_element(b);
  const auto mapping = intersect(a_element, b_element);
  ASSERT_THAT(mapping, IsOk());
  const Offset periods = std::max<Offset>(2, ceil_div(Offset{4000}, mapping->period()));
  const Case test = make_copy(a, b, *mapping, std::min<Offset>(periods, 4));
  expect_numbers(test);
  expect_ranges(test, random, ranges);
  if (::testing::Test::HasFailure()) return;

  const Offset end = mapping->disp() + 3 * mapping->period();
  layout::Window window{.file = {random.between(0, end), end - random.between(0, end / 3)}, .a = {}, .b = {}};
  if (random.chance(50)) window.a = {random.between(0, end / 4), random.between(end / 4, end)};
  if (random.chance(50)) window.b = {random.between(0, end / 4), random.between(end / 4, end)};
  const auto part = intersect(a_element, b_element, window);
  ASSERT_THAT(part, IsOk());
  SCOPED_TRACE(concat("window of the file [", window.file.from, ", ", window.file.to, ")"));
  const Case windowed = make_window_copy(a, b, *part, window);
  expect_numbers(windowed);
  expect_ranges(windowed, random, ranges);
}

TEST(PlanTest, GatherAndScatterOfSmallPatterns) {
  for_cases(1500, [](Random& random) { expect_element(layout::oracle::random_pattern(random), random, 4, 6); });
}

TEST(PlanTest, CopyBetweenSmallPatterns) {
  for_cases(1000, [](Random& random) {
    expect_copy(layout::oracle::random_pattern(random), layout::oracle::random_pattern(random), random, 6);
  });
}

Pattern random_array_pattern(Random& random) {
  const auto partition = Partition::create(layout::oracle::random_description(random),
                                           {.disp = random.chance(50) ? 0 : random.between(0, 30)});
  EXPECT_THAT(partition, IsOk());
  return layout::oracle::pattern_of(*partition->element(random.between(0, partition->element_count() - 1)));
}

TEST(PlanTest, StripesHpfAndTiles) {
  for_cases(600, [](Random& random) {
    const Pattern a = random_array_pattern(random);
    expect_element(a, random, 3, 4);
    if (!::testing::Test::HasFailure()) expect_copy(a, random_array_pattern(random), random, 4);
  });
}

// Blocks of all lengths that kernels are chosen by, with counts that fill their unrolled loops and caches.
Offset random_length(Random& random) {
  const Offset kind = random.between(0, 9);
  if (kind < 5) return Offset{1} << random.between(0, 6);
  return kind < 9 ? random.between(1, 150) : random.between(150, 1500);
}

FallsSet big_set(Random& random, int depth, Offset length) {
  FallsSet set{{0, length - 1, 0, 1, {}}};
  for (int i = 0; i < depth; ++i) {
    const Offset block = layout::oracle::block_end(set);
    const Offset count = random.between(1, depth == 1 ? 90 : 14);
    const Offset stride = random.chance(50) ? block * random.between(1, 4) : block + random.between(0, 90);
    if (set.front().count == 1 && set.front().is_leaf()) {
      set = {{0, block - 1, count > 1 ? stride : 0, count, {}}};
    } else {
      set = {{0, block - 1, count > 1 ? stride : 0, count, std::move(set)}};
    }
  }
  return set;
}

// Several nests in one period, side by side: they share the period's loop.
Pattern big_pattern(Random& random) {
  Pattern pattern;
  const Offset members = random.between(1, 4);
  Offset at = 0;
  for (Offset i = 0; i < members; ++i) {
    FallsSet part = big_set(random, static_cast<int>(random.between(0, members > 2 ? 1 : 2)), random_length(random));
    for (layout::Falls& falls : part) {
      falls.left += at;
      falls.right += at;
    }
    at = layout::oracle::block_end(part) + (random.chance(60) ? random.between(1, 40) : 0);
    pattern.set.push_back(part.front());
  }
  if (random.chance(30)) random.shuffle(pattern.set);
  pattern.period = layout::oracle::block_end(pattern.set) + (random.chance(50) ? random.between(0, 70) : 0);
  pattern.disp = random.chance(50) ? 0 : random.between(0, 100);
  return pattern;
}

TEST(PlanTest, GatherAndScatterOfLongPatterns) {
  for_cases(150, [](Random& random) { expect_element(big_pattern(random), random, 3, 6); });
}

// Fields of records: a short period that repeats often, so that whole chunks of turns run nest by nest.
TEST(PlanTest, RecordsOverManyPeriods) {
  for_cases(200, [](Random& random) {
    Pattern pattern;
    Offset at = 0;
    const Offset fields = random.between(1, 5);
    for (Offset i = 0; i < fields; ++i) {
      at += random.between(0, 9);
      const Offset length = random.chance(70) ? Offset{1} << random.between(0, 4) : random.between(1, 30);
      pattern.set.push_back({at, at + length - 1, 0, 1, {}});
      at += length;
    }
    if (random.chance(40)) random.shuffle(pattern.set);
    pattern.period = at + random.between(0, 9);
    pattern.disp = random.between(0, 70);
    expect_element(pattern, random, random.between(100, 1500), 4);
  });
}

Pattern transposed(Offset rows, Offset columns, Offset elem, Offset row_pitch) {
  return {{{0, (rows - 1) * row_pitch + elem - 1, elem, columns, {{0, elem - 1, row_pitch, rows, {}}}}},
          0,
          rows * row_pitch};
}

TEST(PlanTest, TransposesOfEveryElementLength) {
  for_cases(120, [](Random& random) {
    const Offset elem = random.chance(80) ? Offset{1} << random.between(0, 5) : random.between(1, 40);
    const Offset rows = random.between(2, elem == 1 ? 150 : 50);
    const Offset columns = random.between(2, elem == 1 ? 150 : 50);
    const Offset pitch = columns * elem + (random.chance(40) ? random.between(0, 80) : 0);
    expect_element(transposed(rows, columns, elem, pitch), random, 2, 5);
  });
}

TEST(PlanTest, RowsToTilesAndBack) {
  for_cases(60, [](Random& random) {
    const Offset rows = random.between(1, 40);
    const Offset columns = random.between(1, 40);
    const std::string shape = concat("shape=[", rows, ",", columns, "], elem=", Offset{1} << random.between(0, 4));
    const Offset over = random.between(1, 3);
    const auto tiles =
        layout::parse(concat("tiles(", shape, ", tile=[", random.between(1, 16), ",", random.between(1, 16),
                             "], over=", over, random.chance(50) ? ", order=F)" : ")"));
    const auto rows_layout = layout::parse(concat("hpf(", shape, ", dist=(BLOCK,CYCLIC(", random.between(1, 5),
                                                  ")), grid=[2,2], order=", random.chance(50) ? "F)" : "C)"));
    ASSERT_THAT(tiles, IsOk());
    ASSERT_THAT(rows_layout, IsOk());
    const auto a = tiles->element(random.between(0, over - 1));
    const auto b = rows_layout->element(random.between(0, 3));
    ASSERT_THAT(a, IsOk());
    ASSERT_THAT(b, IsOk());
    expect_copy(layout::oracle::pattern_of(*a), layout::oracle::pattern_of(*b), random, 3);
    if (::testing::Test::HasFailure()) return;
    expect_copy(layout::oracle::pattern_of(*b), layout::oracle::pattern_of(*a), random, 3);
  });
}

// Long irregular lists, cut anywhere.
TEST(PlanTest, IrregularPieces) {
  for_cases(20, [](Random& random) {
    Pattern pattern;
    Offset at = 0;
    for (int i = 0; i < 600; ++i) {
      at += random.between(1, 40);
      const Offset length = random.chance(70) ? 4 << random.between(0, 2) : random.between(1, 30);
      pattern.set.push_back({at, at + length - 1, 0, 1, {}});
      at += length;
    }
    if (random.chance(30)) random.shuffle(pattern.set);
    pattern.period = at + 5;
    expect_element(pattern, random, 2, 10);
  });
}

TEST(PlanTest, RangesFarOutInTheFile) {
  // 16 of every 100 bytes; the range starts 2^40 periods from the beginning.
  const auto element = Element::create({{10, 17, 20, 2, {}}}, {.disp = 7, .period = 100});
  ASSERT_THAT(element, IsOk());
  const auto plan = Plan::gather(*element);
  ASSERT_THAT(plan, IsOk());
  constexpr Offset kPeriod = Offset{1} << 40;
  std::vector<std::byte> file(1000);
  for (std::size_t i = 0; i < file.size(); ++i) file[i] = static_cast<std::byte>(i * 7);
  std::vector<std::byte> packed(100);
  const Offset y = kPeriod * 16 + 3;
  plan->run({file.data(), 7 + kPeriod * 100}, {packed.data(), y}, {y, y + 100});
  for (Offset i = 0; i < 100; ++i) {
    const Offset x = *element->unmap(y + i) - (7 + kPeriod * 100);
    ASSERT_EQ(packed[index(i)], file[index(x)]) << i;
  }
}

// Origins near the end of the address space: the byte at offset 0 has no address at all.
TEST(PlanTest, OriginsLargerThanAnyAddress) {
  const auto element = Element::create({{0, 7, 16, 4, {}}}, {.disp = 0, .period = 64});
  ASSERT_THAT(element, IsOk());
  const auto plan = Plan::scatter(*element);
  ASSERT_THAT(plan, IsOk());
  const Offset periods = (kMaxBytes >> 6) - 2;
  std::vector<std::byte> packed(32, std::byte{1});
  std::vector<std::byte> file(64, std::byte{0});
  plan->run({packed.data(), periods * 32}, {file.data(), periods * 64}, {periods * 32, periods * 32 + 32});
  for (std::size_t i = 0; i < file.size(); ++i) ASSERT_EQ(file[i], std::byte{i % 16 < 8}) << i;
}

TEST(PlanTest, EmptyRangesAndEmptyElementsMoveNothing) {
  const auto empty = Plan::gather(Element());
  ASSERT_THAT(empty, IsOk());
  EXPECT_EQ(empty->bytes(), 0);
  EXPECT_EQ(empty->pieces(), 0);
  EXPECT_EQ(empty->working_set(), 0);
  EXPECT_TRUE(empty->is_contiguous());
  empty->run({}, {}, {0, 100});

  const auto element = Element::create({{0, 3, 0, 1, {}}}, {.disp = 0, .period = 8});
  ASSERT_THAT(element, IsOk());
  const auto plan = Plan::gather(*element);
  ASSERT_THAT(plan, IsOk());
  plan->run({}, {}, {5, 5});
  plan->run({}, {}, {6, 5});
}

TEST(PlanTest, NumbersOfKnownPatterns) {
  const auto stripe = layout::parse("stripe(unit=64, over=4)");
  ASSERT_THAT(stripe, IsOk());
  const auto plan = Plan::gather(*stripe->element(1));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->bytes(), 64);
  EXPECT_EQ(plan->pieces(), 1);
  EXPECT_EQ(plan->working_set(), 128);
  EXPECT_EQ(plan->nest_count(), 1u);
  EXPECT_FALSE(plan->is_contiguous());

  const auto whole = layout::parse("stripe(unit=64, over=1)");
  ASSERT_THAT(whole, IsOk());
  const auto memcpy_plan = Plan::scatter(*whole->element(0));
  ASSERT_THAT(memcpy_plan, IsOk());
  EXPECT_TRUE(memcpy_plan->is_contiguous());

  const auto columns = Plan::gather(make_element(transposed(30, 50, 8, 400)));
  ASSERT_THAT(columns, IsOk());
  EXPECT_EQ(columns->bytes(), 30 * 50 * 8);
  EXPECT_EQ(columns->pieces(), 30 * 50);
  EXPECT_EQ(columns->working_set(), 2 * 30 * 50 * 8);
}

TEST(PlanTest, CopiesOfAPlanShareAndRunFromSeveralThreads) {
  for_cases(1, [](Random& random) {
    const Pattern pattern = transposed(40, 40, 8, 320);
    const Case test = make_gather(pattern, make_element(pattern), 2);
    const Plan copy = test.plan;
    EXPECT_EQ(copy.bytes(), test.plan.bytes());
    for (const int threads : {0, 1, 2, 3, 64}) expect_range(test, {17, test.end - 5}, {threads, false}, random);
  });
}

TEST(PlanTest, TooManyFamiliesAreAnError) {
  const auto element = make_element({{{0, 3, 0, 1, {}}, {9, 11, 0, 1, {}}, {20, 20, 0, 1, {}}}, 0, 30});
  EXPECT_THAT(Plan::gather(element, {.runs = 2, .steps = 1000}), StatusIs(ErrorCode::kTooComplex));
  EXPECT_THAT(Plan::scatter(element, {.runs = 2, .steps = 1000}), StatusIs(ErrorCode::kTooComplex));
}

}  // namespace
}  // namespace weir::transfer
