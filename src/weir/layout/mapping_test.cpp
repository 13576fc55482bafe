#include <weir/layout/mapping.h>

#include <numeric>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::BruteElement;
using oracle::Common;
using oracle::Pattern;
using oracle::Random;
using weir::testing::IsOk;

struct Side {
  Pattern pattern;
  Element element;
};

Side make_side(Random& random) {
  Side side{oracle::random_pattern(random, {.max_period = 36, .max_disp = 40}), {}};
  auto element = Element::create(side.pattern.set, side.pattern.placement());
  EXPECT_THAT(element, IsOk()) << oracle::describe(side.pattern);
  if (element.is_ok()) side.element = *element;
  return side;
}

/// An element of a stripe, hpf or (if not `monotone`) tiles partition.
Side make_array_side(Random& random, bool monotone) {
  const auto partition =
      Partition::create(monotone ? oracle::random_monotone_description(random) : oracle::random_description(random),
                        {.disp = random.chance(50) ? 0 : random.between(0, 30)});
  EXPECT_THAT(partition, IsOk());
  if (!partition.is_ok()) return {};
  const auto element = partition->element(random.between(0, partition->element_count() - 1));
  EXPECT_THAT(element, IsOk());
  if (!element.is_ok()) return {};
  return {oracle::pattern_of(*element), *element};
}

oracle::Bytes sorted(oracle::Bytes bytes) {
  std::sort(bytes.begin(), bytes.end());
  return bytes;
}

/// The three projections hold just the bytes listed, each once.
void expect_projections(const Mapping& mapping, const std::vector<Common>& bytes) {
  oracle::Bytes file;
  oracle::Bytes a;
  oracle::Bytes b;
  for (const Common& byte : bytes) {
    file.push_back(byte.file - mapping.disp());
    a.push_back(byte.a);
    b.push_back(byte.b);
  }
  ASSERT_THAT(check(mapping.file_falls()), IsOk());
  ASSERT_THAT(check(mapping.a_falls()), IsOk());
  ASSERT_THAT(check(mapping.b_falls()), IsOk());
  ASSERT_EQ(sorted(oracle::expand(mapping.file_falls())), sorted(file)) << oracle::describe(mapping.file_falls());
  ASSERT_EQ(sorted(oracle::expand(mapping.a_falls())), sorted(a)) << oracle::describe(mapping.a_falls());
  ASSERT_EQ(sorted(oracle::expand(mapping.b_falls())), sorted(b)) << oracle::describe(mapping.b_falls());
  ASSERT_EQ(simplify(mapping.file_falls()), mapping.file_falls());
  ASSERT_EQ(simplify(mapping.a_falls()), mapping.a_falls());
  ASSERT_EQ(simplify(mapping.b_falls()), mapping.b_falls());
}

void expect_well_formed(const Mapping& mapping) {
  std::size_t nodes = 0;
  for (const Run& run : mapping.runs()) {
    ASSERT_GE(run.length, 1);
    nodes += 1 + mapping.loops(run).size();
    Offset step = kMaxBytes;
    for (const Loop& loop : mapping.loops(run)) {
      ASSERT_GE(loop.count, 1);
      ASSERT_LE(loop.file, step) << "loops must come by decreasing step in the file";
      step = loop.file;
    }
  }
  ASSERT_GE(mapping.node_count(), mapping.runs().size());
  ASSERT_LE(mapping.node_count(), nodes);
}

bool is_endless(const Element& element) {
  return element.size() == element.period() && element.is_contiguous(0, element.size());
}

// Elements without gaps repeat after any number of bytes.
Offset period_of(const Side& a, const Side& b) {
  if (is_endless(a.element) && is_endless(b.element)) return std::max(a.pattern.period, b.pattern.period);
  if (is_endless(a.element)) return b.pattern.period;
  if (is_endless(b.element)) return a.pattern.period;
  return std::lcm(a.pattern.period, b.pattern.period);
}

void expect_periodic_mapping(const Side& a, const Side& b) {
  SCOPED_TRACE(oracle::describe(a.pattern) + " and " + oracle::describe(b.pattern));
  const auto mapping = intersect(a.element, b.element);
  ASSERT_THAT(mapping, IsOk());
  const Offset disp = std::max(a.pattern.disp, b.pattern.disp);
  const Offset period = period_of(a, b);
  const BruteElement brute_a = BruteElement::reaching(a.pattern, disp + 3 * period);
  const BruteElement brute_b = BruteElement::reaching(b.pattern, disp + 3 * period);
  const auto expected = oracle::common_bytes(brute_a, brute_b, {.file = {disp, disp + period}, .a = {}, .b = {}});
  const std::vector<Common> listed = oracle::expand(*mapping);
  ASSERT_EQ(listed, expected) << "listed " << oracle::describe(listed) << "\nexpected " << oracle::describe(expected);
  ASSERT_EQ(mapping->is_empty(), expected.empty());
  ASSERT_EQ(mapping->bytes(), static_cast<Offset>(expected.size()));
  expect_well_formed(*mapping);
  if (expected.empty()) {
    ASSERT_TRUE(mapping->file_falls().empty());
    return;
  }
  ASSERT_TRUE(mapping->is_periodic());
  ASSERT_EQ(mapping->disp(), disp);
  ASSERT_EQ(mapping->period(), period);
  const auto advance = [period](const Side& side) {
    return is_endless(side.element) ? period : period / side.pattern.period * side.element.size();
  };
  ASSERT_EQ(mapping->a_period(), advance(a));
  ASSERT_EQ(mapping->b_period(), advance(b));
  for (Offset k = 1; k <= 2; ++k) {
    std::vector<Common> moved = listed;
    for (Common& byte : moved) {
      byte.file += k * mapping->period();
      byte.a += k * mapping->a_period();
      byte.b += k * mapping->b_period();
    }
    const Range window{disp + k * period, disp + (k + 1) * period};
    ASSERT_EQ(moved, oracle::common_bytes(brute_a, brute_b, {.file = window, .a = {}, .b = {}})) << "period " << k;
  }
  expect_projections(*mapping, listed);
}

TEST(IntersectTest, ListsTheCommonBytesOfOnePeriod) {
  oracle::for_cases(6000, [](Random& random) {
    const Side a = make_side(random);
    const Side b = make_side(random);
    expect_periodic_mapping(a, b);
  });
}

TEST(IntersectTest, ListsTheCommonBytesOfArrayPartitions) {
  oracle::for_cases(2000, [](Random& random) {
    const Side a = make_array_side(random, false);
    const Side b = make_array_side(random, false);
    expect_periodic_mapping(a, b);
  });
}

TEST(IntersectTest, ListsTheCommonBytesWithAnElementWithoutGaps) {
  oracle::for_cases(1500, [](Random& random) {
    const auto whole =
        Partition::create(Stripe{.unit = random.between(1, 40), .over = 1}, {.disp = random.between(0, 40)});
    ASSERT_THAT(whole, IsOk());
    const Side b{oracle::pattern_of(*whole->element(0)), *whole->element(0)};
    const Side a = random.chance(50) ? make_side(random) : make_array_side(random, false);
    expect_periodic_mapping(a, b);
    expect_periodic_mapping(b, a);
    expect_periodic_mapping(b, b);
  });
}

// An array of 10^9 floats, whose rows fit no stripe, in a file of one subfile.
TEST(IntersectTest, WithAnElementWithoutGapsIsAsSimpleAsTheOther) {
  const auto whole = Partition::create(Stripe{.unit = 65536, .over = 1});
  const auto blocks = parse("hpf(shape=[1000,1000,1000], elem=4, dist=(BLOCK,BLOCK,BLOCK), grid=[2,3,4])");
  ASSERT_THAT(whole, IsOk());
  ASSERT_THAT(blocks, IsOk());
  for (Offset i = 0; i < blocks->element_count(); ++i) {
    const Element block = *blocks->element(i);
    const auto mapping = intersect(block, *whole->element(0));
    ASSERT_THAT(mapping, IsOk());
    EXPECT_EQ(mapping->bytes(), block.size());
    EXPECT_EQ(mapping->runs().size(), 1u);
    EXPECT_EQ(mapping->period(), block.period());
  }
}

TEST(IntersectTest, OfMonotoneElementsIsAscending) {
  oracle::for_cases(1500, [](Random& random) {
    const Side a = make_array_side(random, true);
    const Side b = make_array_side(random, true);
    SCOPED_TRACE(oracle::describe(a.pattern) + " and " + oracle::describe(b.pattern));
    const auto mapping = intersect(a.element, b.element);
    ASSERT_THAT(mapping, IsOk());
    for (const FallsSet& falls : {mapping->file_falls(), mapping->a_falls(), mapping->b_falls()}) {
      const oracle::Bytes bytes = oracle::expand(falls);
      ASSERT_TRUE(std::is_sorted(bytes.begin(), bytes.end())) << oracle::describe(falls);
    }
  });
}

TEST(IntersectTest, IsSymmetric) {
  oracle::for_cases(1500, [](Random& random) {
    const Side a = make_side(random);
    const Side b = make_side(random);
    SCOPED_TRACE(oracle::describe(a.pattern) + " and " + oracle::describe(b.pattern));
    const auto forth = intersect(a.element, b.element);
    const auto back = intersect(b.element, a.element);
    ASSERT_THAT(forth, IsOk());
    ASSERT_THAT(back, IsOk());
    std::vector<Common> swapped = oracle::expand(*back);
    for (Common& byte : swapped) std::swap(byte.a, byte.b);
    std::sort(swapped.begin(), swapped.end());
    ASSERT_EQ(oracle::expand(*forth), swapped);
    ASSERT_EQ(forth->bytes(), back->bytes());
  });
}

TEST(IntersectTest, OfAnElementWithItselfIsTheElement) {
  oracle::for_cases(1000, [](Random& random) {
    const Side a = make_side(random);
    SCOPED_TRACE(oracle::describe(a.pattern));
    const auto mapping = intersect(a.element, a.element);
    ASSERT_THAT(mapping, IsOk());
    ASSERT_EQ(mapping->bytes(), a.element.size());
    for (const Common& byte : oracle::expand(*mapping)) ASSERT_EQ(byte.a, byte.b);
  });
}

TEST(IntersectTest, OfAllElementsOfAPartitionWithAViewIsTheView) {
  oracle::for_cases(800, [](Random& random) {
    const Side view = make_side(random);
    const Offset period = random.between(1, 30);
    const auto layout = Partition::create(Explicit{oracle::random_partition(random, period, random.between(1, 4))},
                                          {.disp = random.between(0, 10), .period = period});
    ASSERT_THAT(layout, IsOk());
    SCOPED_TRACE(oracle::describe(view.pattern));
    // Subfiles that are empty or the whole file have periods of their own: counted over the common one of all.
    const Offset common = std::lcm(view.pattern.period, period);
    Offset bytes = 0;
    for (Offset i = 0; i < layout->element_count(); ++i) {
      const auto subfile = layout->element(i);
      ASSERT_THAT(subfile, IsOk());
      const auto mapping = intersect(view.element, *subfile);
      ASSERT_THAT(mapping, IsOk());
      bytes += mapping->bytes() * (common / mapping->period());
    }
    ASSERT_EQ(bytes, common / view.pattern.period * view.element.size());
  });
}

Window random_window(Random& random, const BruteElement& a, const BruteElement& b, Offset end) {
  Window window;
  const Offset bounded = random.between(1, 7);  // at least one of the three, so that the answer is finite
  if (bounded & 1) window.file = oracle::random_range(random, end);
  // Offsets of an element are bounded to what its table and the other one's hold.
  if (bounded & 2) window.a = oracle::random_range(random, std::min(a.count_below(end), a.size()));
  if (bounded & 4) window.b = oracle::random_range(random, std::min(b.count_below(end), b.size()));
  return window;
}

TEST(IntersectWindowTest, ListsTheCommonBytesInside) {
  oracle::for_cases(6000, [](Random& random) {
    const Side a = random.chance(80) ? make_side(random) : make_array_side(random, false);
    const Side b = random.chance(80) ? make_side(random) : make_array_side(random, false);
    const Offset end = random.between(0, 400);
    const BruteElement brute_a = BruteElement::reaching(a.pattern, end + 2 * a.pattern.period);
    const BruteElement brute_b = BruteElement::reaching(b.pattern, end + 2 * b.pattern.period);
    const Window window = random_window(random, brute_a, brute_b, end);
    // Bytes of a window over an element lie below end + one period of it; longer tables for the other side.
    const Offset reach = end + 2 * (a.pattern.period + b.pattern.period);
    const BruteElement long_a = BruteElement::reaching(a.pattern, reach);
    const BruteElement long_b = BruteElement::reaching(b.pattern, reach);
    SCOPED_TRACE(oracle::describe(a.pattern) + " and " + oracle::describe(b.pattern));
    SCOPED_TRACE(concat("file [", window.file.from, ", ", window.file.to, ") a [", window.a.from, ", ", window.a.to,
                        ") b [", window.b.from, ", ", window.b.to, ")"));
    const auto mapping = intersect(a.element, b.element, window);
    ASSERT_THAT(mapping, IsOk());
    const std::vector<Common> expected = oracle::common_bytes(long_a, long_b, window);
    const std::vector<Common> listed = oracle::expand(*mapping);
    ASSERT_EQ(listed, expected) << "listed " << oracle::describe(listed) << "\nexpected " << oracle::describe(expected);
    ASSERT_FALSE(mapping->is_periodic());
    ASSERT_EQ(mapping->bytes(), static_cast<Offset>(expected.size()));
    ASSERT_EQ(mapping->is_empty(), expected.empty());
    expect_well_formed(*mapping);
    expect_projections(*mapping, listed);
  });
}

TEST(IntersectWindowTest, OfAnEmptyWindowIsEmpty) {
  const auto a = Element::create({{0, 3, 0, 1, {}}}, {.period = 8});
  ASSERT_THAT(a, IsOk());
  for (const Window& window : {Window{.file = {5, 5}, .a = {}, .b = {}}, Window{.file = {}, .a = {7, 3}, .b = {}},
                               Window{.file = {}, .a = {}, .b = {0, 0}}, Window{.file = {4, 8}, .a = {}, .b = {}}}) {
    const auto mapping = intersect(*a, *a, window);
    ASSERT_THAT(mapping, IsOk());
    EXPECT_TRUE(mapping->is_empty());
    EXPECT_EQ(mapping->bytes(), 0);
  }
}

TEST(IntersectTest, SaysSoWhenTheBudgetDoesNotSuffice) {
  const auto a = Element::create({{0, 2, 0, 1, {}}}, {.period = 7});
  const auto b = Element::create({{0, 4, 0, 1, {}}}, {.period = 11});
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_THAT(intersect(*a, *b, Budget{.runs = 1, .steps = 64}), weir::testing::StatusIs(ErrorCode::kTooComplex));
  EXPECT_THAT(intersect(*a, *b), IsOk());
}

}  // namespace
}  // namespace weir::layout
