#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/partition.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::Random;
using weir::testing::IsOk;
using weir::testing::StatusIs;

Partition make(std::vector<FallsSet> elements, Partition::Options options) {
  auto partition = Partition::create(Explicit{std::move(elements)}, options);
  EXPECT_THAT(partition, IsOk());
  return *partition;
}

std::string describe(const std::vector<FallsSet>& elements) {
  std::string out;
  for (const FallsSet& set : elements) out += oracle::describe(set) + " | ";
  return out;
}

void expect_offence(const Status& status, Offset byte) {
  ASSERT_THAT(status, StatusIs(ErrorCode::kInvalidArgument));
  ASSERT_EQ(status.location(), byte) << status.message();
  ASSERT_THAT(status.message(), ::testing::HasSubstr(std::to_string(byte)));
}

TEST(ValidateTest, AcceptsALayout) {
  EXPECT_THAT(make({{{0, 1, 6, 1, {}}}, {{2, 3, 6, 1, {}}}, {{4, 5, 6, 1, {}}}}, {.disp = 2}).validate(), IsOk());
  EXPECT_THAT(make({{{0, 12, 1, 4, {{0, 0, 4, 4, {}}}}}}, {}).validate(), IsOk());
}

TEST(ValidateTest, NamesTheFirstUncoveredByteOfTheFile) {
  expect_offence(make({{{0, 1, 0, 1, {}}}, {{4, 5, 0, 1, {}}}}, {.disp = 100, .period = 6}).validate(), 102);
  expect_offence(make({{{0, 3, 0, 1, {}}}}, {.period = 5}).validate(), 4);
  expect_offence(make({{{1, 3, 0, 1, {}}}}, {.period = 4}).validate(), 0);
}

TEST(ValidateTest, NamesTheFirstDoublyCoveredByteOfTheFile) {
  expect_offence(make({{{0, 3, 0, 1, {}}}, {{3, 5, 0, 1, {}}}}, {.disp = 7, .period = 6}).validate(), 10);
  // An overlap comes before a gap and the other way round.
  expect_offence(make({{{0, 3, 0, 1, {}}}, {{3, 5, 0, 1, {}}}}, {.period = 8}).validate(), 3);
  expect_offence(make({{{1, 3, 0, 1, {}}}, {{3, 5, 0, 1, {}}}}, {.period = 6}).validate(), 0);
}

TEST(ValidateTest, RefusesAnElementThatHoldsAByteTwice) {
  const auto partition = Partition::create(Explicit{{{{0, 3, 0, 1, {}}, {2, 5, 0, 1, {}}}}}, {.period = 6});
  const Status status = partition.is_ok() ? partition->validate() : partition.status();
  EXPECT_THAT(status, StatusIs(ErrorCode::kInvalidArgument));
}

TEST(ValidateTest, AcceptsEveryPartition) {
  oracle::for_cases(3000, [](Random& random) {
    const Offset period = random.between(1, 60);
    const auto elements = oracle::random_partition(random, period, random.between(1, 5));
    SCOPED_TRACE(describe(elements));
    ASSERT_EQ(oracle::first_offence(elements, period), std::nullopt);
    ASSERT_THAT(make(elements, {.disp = random.between(0, 50), .period = period}).validate(), IsOk());
    ASSERT_THAT(make(elements, {}).validate(), IsOk());
  });
}

/// Drops, copies to another element, or moves one FALLS; nothing if the result does not fit the period.
bool mutate(Random& random, std::vector<FallsSet>& elements, Offset period) {
  FallsSet& from = elements[static_cast<std::size_t>(random.between(0, static_cast<Offset>(elements.size()) - 1))];
  if (from.empty()) return false;
  const auto index = random.between(0, static_cast<Offset>(from.size()) - 1);
  const Falls falls = from[static_cast<std::size_t>(index)];
  const Offset kind = random.between(0, 2);
  if (kind == 0) {
    from.erase(from.begin() + index);
  } else if (kind == 1) {
    FallsSet& to = elements[static_cast<std::size_t>(random.between(0, static_cast<Offset>(elements.size()) - 1))];
    if (&to == &from) return false;
    to.insert(to.begin() + random.between(0, static_cast<Offset>(to.size())), falls);
  } else {
    const Offset shift = random.between(-3, 3);
    Falls& moved = from[static_cast<std::size_t>(index)];
    moved.left += shift;
    moved.right += shift;
    if (moved.left < 0) return false;
  }
  for (const FallsSet& set : elements) {
    const oracle::Bytes bytes = oracle::expand(set);
    if (oracle::has_duplicates(bytes) || oracle::block_end(set) > period) return false;
  }
  return true;
}

TEST(ValidateTest, NamesTheFirstOffenceOfAFaultyPartition) {
  int faulty = 0;
  oracle::for_cases(8000, [&](Random& random) {
    const Offset period = random.between(2, 60);
    auto elements = oracle::random_partition(random, period, random.between(1, 5));
    const Offset mutations = random.between(1, 2);
    for (Offset i = 0; i < mutations; ++i) {
      if (!mutate(random, elements, period)) return;
    }
    SCOPED_TRACE(describe(elements));
    const Offset disp = random.between(0, 50);
    const auto offence = oracle::first_offence(elements, period);
    const Status status = make(elements, {.disp = disp, .period = period}).validate();
    if (!offence) {
      ASSERT_THAT(status, IsOk());
      return;
    }
    ++faulty;
    expect_offence(status, disp + *offence);
  });
  EXPECT_GT(faulty, 1000);
}

TEST(ValidateTest, JudgesOverlappingNests) {
  int valid = 0;
  oracle::for_cases(4000, [&](Random& random) {
    // An interchanged array is all of its bytes or leaves holes; another element fills, doubles or misses them.
    const FallsSet first = oracle::interchanged_set(random);
    const Offset period = oracle::end_of(oracle::expand(first));
    oracle::Bytes rest;
    for (Offset x = 0; x < period; ++x) rest.push_back(x);
    for (const Offset byte : oracle::expand(first)) std::erase(rest, byte);
    if (random.chance(30) && !rest.empty()) rest.pop_back();
    if (random.chance(20)) rest.insert(rest.begin(), 0);
    if (oracle::has_duplicates(rest)) return;
    const std::vector<FallsSet> elements = {first, oracle::group(random, rest)};
    SCOPED_TRACE(describe(elements));
    const auto offence = oracle::first_offence(elements, period);
    const Status status = make(elements, {.period = period}).validate();
    if (offence) {
      expect_offence(status, *offence);
    } else {
      ++valid;
      ASSERT_THAT(status, IsOk());
    }
  });
  EXPECT_GT(valid, 100);
}

TEST(ValidateTest, AcceptsEveryArrayPartition) {
  oracle::for_cases(1500, [](Random& random) {
    const auto partition = Partition::create(oracle::random_description(random), {.disp = random.between(0, 9)});
    ASSERT_THAT(partition, IsOk());
    ASSERT_THAT(partition->validate(), IsOk());
    std::vector<FallsSet> elements;
    for (Offset i = 0; i < partition->element_count(); ++i) {
      const auto element = partition->element(i);
      ASSERT_THAT(element, IsOk());
      elements.push_back(element->falls());
    }
    SCOPED_TRACE(describe(elements));
    ASSERT_EQ(oracle::first_offence(elements, partition->period()), std::nullopt);
    ASSERT_THAT(make(elements, {.period = partition->period()}).validate(), IsOk());
  });
}

TEST(ValidateTest, CostsByStructureNotByBytes) {
  const Offset many = Offset{1} << 40;
  const std::vector<FallsSet> stripes = {{{0, 63, 256, many, {}}},
                                         {{64, 127, 256, many, {}}},
                                         {{128, 191, 256, many, {{0, 0, 2, 32, {}}, {1, 1, 2, 32, {}}}}},
                                         {{192, 255, 256, many, {}}}};
  EXPECT_THAT(make(stripes, {.disp = 5}).validate(), IsOk());

  auto gap = stripes;
  gap[3][0].count = many - 1;
  expect_offence(make(gap, {.period = 256 * many}).validate(), 256 * (many - 1) + 192);

  auto overlap = stripes;
  overlap[1][0].right = 128;
  expect_offence(make(overlap, {.period = 256 * many}).validate(), 128);
}

TEST(ValidateTest, CostsByStructureForInterleavedNests) {
  const Offset edge = Offset{1} << 20;
  // An array of bytes column by column, odd columns and even columns.
  const FallsSet even = {{0, edge * (edge - 1), 2, edge / 2, {{0, 0, edge, edge, {}}}}};
  const FallsSet odd = {{1, edge * (edge - 1) + 1, 2, edge / 2, {{0, 0, edge, edge, {}}}}};
  EXPECT_THAT(make({even, odd}, {}).validate(), IsOk());
  expect_offence(make({even}, {.period = edge * edge}).validate(), 1);
  expect_offence(make({even, odd, {{77, 77, 0, 1, {}}}}, {.period = edge * edge}).validate(), 77);
}

}  // namespace
}  // namespace weir::layout
