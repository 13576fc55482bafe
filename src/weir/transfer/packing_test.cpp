#include <weir/transfer/packing.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing.h>
#include <weir/layout/band.h>
#include <weir/layout/internal/generate.h>
#include <weir/layout/language.h>

namespace weir::transfer {
namespace {

using layout::Element;
using layout::Mapping;
using layout::Partition;
using layout::oracle::Common;
using layout::oracle::Random;

Mapping mapping_of(const Element& a, const Element& b, Offset end) {
  auto mapping = layout::intersect(a, b, layout::Window{.file = {0, end}, .a = {}, .b = {}});
  EXPECT_THAT(mapping, weir::testing::IsOk());
  return std::move(mapping).value();
}

Mapping mapping_of(const char* from, Offset a, const char* to, Offset b) {
  const Partition source = *layout::parse(from);
  const Partition target = *layout::parse(to);
  return mapping_of(*source.element(a), *target.element(b), source.period());
}

std::vector<std::byte> numbered(Offset size, unsigned salt) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 2654435761u + salt) >> 7);
  return bytes;
}

// Runs both halves in pieces of at most `step` message bytes and compares with the listed bytes.
void expect_carries(const Mapping& mapping, Offset step) {
  const std::vector<Common> common = layout::oracle::expand(mapping);
  Offset a_end = 0;
  Offset b_end = 0;
  for (const Common& byte : common) {
    a_end = std::max(a_end, byte.a + 1);
    b_end = std::max(b_end, byte.b + 1);
  }
  const Packing pack = Packing::create(mapping, End::kA);
  const Packing unpack = Packing::create(mapping, End::kB);
  ASSERT_EQ(pack.bytes, static_cast<Offset>(common.size()));
  ASSERT_EQ(pack.a_direct, unpack.a_direct);
  ASSERT_EQ(pack.b_direct, unpack.b_direct);

  const std::vector<std::byte> source = numbered(a_end, 1);
  std::vector<std::byte> target = numbered(b_end, 77);
  std::vector<std::byte> expected = target;
  for (const Common& byte : common)
    expected[static_cast<std::size_t>(byte.b)] = source[static_cast<std::size_t>(byte.a)];
  std::vector<std::byte> whole;
  for (Offset at = 0; at < pack.bytes; at += step) {
    const Range range{at, std::min(pack.bytes, at + step)};
    constexpr std::size_t kGuard = 16;
    std::vector<std::byte> message(static_cast<std::size_t>(range.to - range.from) + 2 * kGuard, std::byte{0xA5});
    pack.plan.run({source.data(), 0}, {message.data() + kGuard, range.from}, range);
    for (std::size_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(message[i], std::byte{0xA5});
      ASSERT_EQ(message[message.size() - 1 - i], std::byte{0xA5});
    }
    unpack.plan.run({message.data() + kGuard, range.from}, {target.data(), 0}, range);
    whole.insert(whole.end(), message.begin() + kGuard, message.end() - kGuard);
  }
  ASSERT_EQ(target, expected);
  if (pack.a_direct) {
    ASSERT_EQ(std::memcmp(whole.data(), source.data() + *pack.a_direct, whole.size()), 0);
    ASSERT_TRUE(pack.plan.is_contiguous());
  }
  if (pack.b_direct) {
    ASSERT_EQ(std::memcmp(whole.data(), target.data() + *pack.b_direct, whole.size()), 0);
    ASSERT_TRUE(unpack.plan.is_contiguous());
  }
}

TEST(PackingTest, CarriesRandomMappingsInPiecesOfAnyLength) {
  layout::oracle::for_cases(3000, [](Random& random) {
    const layout::oracle::Pattern x = layout::oracle::random_pattern(random);
    const layout::oracle::Pattern y = layout::oracle::random_pattern(random);
    const auto a = Element::create(x.set, x.placement());
    const auto b = Element::create(y.set, y.placement());
    if (!a.is_ok() || !b.is_ok()) return;
    SCOPED_TRACE(describe(x) + " to " + describe(y));
    const Mapping mapping = mapping_of(*a, *b, random.between(1, 200));
    if (mapping.is_empty()) return;
    expect_carries(mapping, random.between(1, 40));
    expect_carries(mapping, mapping.bytes());
  });
}

TEST(PackingTest, CarriesRandomArraysInPiecesOfAnyLength) {
  layout::oracle::for_cases(1000, [](Random& random) {
    const auto from = Partition::create(layout::oracle::random_description(random));
    const auto to = Partition::create(layout::oracle::random_description(random));
    ASSERT_TRUE(from.is_ok() && to.is_ok());
    SCOPED_TRACE(print(*from) + " to " + print(*to));
    const auto a = from->element(random.between(0, from->element_count() - 1));
    const auto b = to->element(random.between(0, to->element_count() - 1));
    ASSERT_TRUE(a.is_ok() && b.is_ok());
    const Mapping mapping = mapping_of(*a, *b, random.between(1, 300));
    if (mapping.is_empty()) return;
    expect_carries(mapping, random.between(1, 40));
  });
}

TEST(PackingTest, CarriesRandomMappingsToMemoryInPiecesOfAnyLength) {
  layout::oracle::for_cases(3000, [](Random& random) {
    const layout::oracle::Pattern x = layout::oracle::random_pattern(random);
    const layout::oracle::Pattern y = layout::oracle::random_pattern(random);
    const layout::oracle::Pattern z = layout::oracle::random_pattern(random);
    const auto a = Element::create(x.set, x.placement());
    const auto b = Element::create(y.set, y.placement());
    const auto memory = Element::create(z.set, z.placement());
    if (!a.is_ok() || !b.is_ok() || !memory.is_ok() || memory->is_empty()) return;
    SCOPED_TRACE(describe(x) + " to " + describe(y) + ", memory " + describe(z));
    const Mapping mapping = mapping_of(*a, *b, random.between(1, 200));
    if (mapping.is_empty()) return;
    const auto composed = random.chance(50) ? compose_a(mapping, *memory) : compose_b(mapping, *memory);
    ASSERT_THAT(composed, weir::testing::IsOk());
    if (composed->is_empty()) return;
    expect_carries(*composed, random.between(1, 40));
    expect_carries(*composed, composed->bytes());
  });
}

// Memory whose every byte is used, some of them in turns that reach into each other: byte 40 i + j of the sequence is
// at 61 i + 60 j.
TEST(PackingTest, MemoryInTurnsThatInterleaveIsTheMessage) {
  constexpr Offset kTurns = 40;
  constexpr Offset kPieces = 40;
  constexpr Offset kEnd = 61 * (kTurns - 1) + 60 * (kPieces - 1) + 1;
  layout::FallsSet set{{0, 60 * (kPieces - 1), 61, kTurns, {{0, 0, 60, kPieces, {}}}}};
  std::vector<bool> is_taken(static_cast<std::size_t>(kEnd));
  for (Offset i = 0; i < kTurns; ++i) {
    for (Offset j = 0; j < kPieces; ++j) is_taken[static_cast<std::size_t>(61 * i + 60 * j)] = true;
  }
  for (Offset at = 0; at < kEnd; ++at) {
    if (!is_taken[static_cast<std::size_t>(at)]) set.push_back({at, at, 0, 1, {}});
  }
  const Element dense = layout::oracle::make({{0, kEnd - 1, 0, 1, {}}}, {.disp = 0, .period = kEnd});
  const Element memory = layout::oracle::make(set, {.disp = 0, .period = kEnd});
  const auto mapping = compose_b(mapping_of(dense, dense, kEnd), memory);
  ASSERT_THAT(mapping, weir::testing::IsOk());
  const std::vector<layout::Band> bands = bands_of(*mapping, layout::Order::kB);
  ASSERT_FALSE(std::all_of(bands.begin(), bands.end(), [](const auto& x) { return is_nested(x, layout::Order::kB); }));
  EXPECT_EQ(Packing::create(*mapping, End::kA).b_direct, Offset{0});
  for (const Offset step : {Offset{1}, Offset{100}, kEnd}) expect_carries(*mapping, step);
}

TEST(PackingTest, BlockToCyclicReadsStridesAndLandsInPlace) {
  const Mapping mapping = mapping_of("hpf(shape=[64], elem=8, dist=(BLOCK), grid=[4])", 1,
                                     "hpf(shape=[64], elem=8, dist=(CYCLIC), grid=[4])", 3);
  const Packing pack = Packing::create(mapping, End::kA);
  EXPECT_EQ(pack.b_direct, Offset{32});
  EXPECT_FALSE(pack.a_direct);
  EXPECT_EQ(pack.plan.pieces(), 4);
  expect_carries(mapping, 12);
}

TEST(PackingTest, CyclicToBlockLeavesFromWhereItLies) {
  const Mapping mapping = mapping_of("hpf(shape=[64], elem=8, dist=(CYCLIC), grid=[4])", 2,
                                     "hpf(shape=[64], elem=8, dist=(BLOCK), grid=[4])", 1);
  const Packing unpack = Packing::create(mapping, End::kB);
  EXPECT_EQ(unpack.a_direct, Offset{32});
  EXPECT_FALSE(unpack.b_direct);
  EXPECT_EQ(unpack.plan.pieces(), 4);
  expect_carries(mapping, 12);
}

TEST(PackingTest, EqualEndsNeedNoPlanAtEither) {
  const Mapping mapping = mapping_of("hpf(shape=[8,8], elem=8, dist=(BLOCK,*), grid=[2,1])", 1,
                                     "hpf(shape=[8,8], elem=8, dist=(BLOCK,*), grid=[4,1])", 2);
  const Packing pack = Packing::create(mapping, End::kA);
  EXPECT_EQ(pack.a_direct, Offset{0});
  EXPECT_EQ(pack.b_direct, Offset{0});
  expect_carries(mapping, 100);
}

}  // namespace
}  // namespace weir::transfer
