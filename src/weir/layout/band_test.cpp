#include <weir/layout/band.h>

#include <algorithm>
#include <tuple>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::for_cases;
using oracle::Pattern;
using oracle::Random;
using weir::testing::IsOk;

using Byte = std::tuple<Offset, Offset, Offset>;  // file, a, b

void append_bytes(const Piece& piece, std::span<const Loop> loops, std::vector<Byte>& out) {
  if (loops.empty()) {
    for (Offset i = 0; i < piece.length; ++i) out.emplace_back(piece.file + i, piece.a + i, piece.b + i);
    return;
  }
  Piece turn = piece;
  for (Offset i = 0; i < loops.front().count; ++i, move(turn, loops.front(), 1)) {
    append_bytes(turn, loops.subspan(1), out);
  }
}

// Pieces that continue each other in both elements are joined wherever they lie in the file, unless its order is asked
// for.
std::vector<Byte> sorted(std::vector<Byte> bytes, Order order) {
  if (order != Order::kFile) {
    for (Byte& byte : bytes) std::get<0>(byte) = 0;
  }
  std::sort(bytes.begin(), bytes.end());
  return bytes;
}

std::vector<Byte> bytes_of(const Mapping& mapping, Order order) {
  std::vector<Byte> bytes;
  for (const Run& run : mapping.runs()) {
    append_bytes({run.file, run.a, run.b, run.length}, mapping.loops(run), bytes);
  }
  return sorted(std::move(bytes), order);
}

std::vector<Byte> bytes_of(const std::vector<Band>& bands, Order order) {
  std::vector<Byte> bytes;
  for (const Band& band : bands) append_bytes(band.piece, band.loops, bytes);
  return sorted(std::move(bytes), order);
}

Mapping windowed(const Pattern& a, const Pattern& b, const Window& window) {
  const auto x = Element::create(a.set, a.placement());
  const auto y = Element::create(b.set, b.placement());
  EXPECT_THAT(x, IsOk());
  EXPECT_THAT(y, IsOk());
  auto mapping = intersect(*x, *y, window);
  EXPECT_THAT(mapping, IsOk());
  return std::move(mapping).value();
}

// Whatever is joined, split or melted: the bytes stay the same, there are no more bands than runs, and loops are
// sorted.
TEST(BandTest, BandsHoldTheBytesOfTheRuns) {
  for_cases(1500, [](Random& random) {
    const Pattern a = oracle::random_pattern(random);
    const Pattern b = oracle::random_pattern(random);
    SCOPED_TRACE(concat("a = ", describe(a), "\nb = ", describe(b)));
    const Offset from = random.between(0, 200);
    const Mapping mapping = windowed(a, b, {.file = {from, from + random.between(1, 400)}, .a = {}, .b = {}});
    for (const Order order : {Order::kFile, Order::kA, Order::kB}) {
      const std::vector<Band> bands = bands_of(mapping, order);
      ASSERT_EQ(bytes_of(bands, order), bytes_of(mapping, order));
      EXPECT_LE(bands.size(), mapping.runs().size());
      for (const Band& band : bands) {
        EXPECT_TRUE(std::is_sorted(band.loops.begin(), band.loops.end(), [order](const Loop& x, const Loop& y) {
          return step_of(x, order) > step_of(y, order);
        }));
      }
    }
  });
}

// A window on two layouts that keep every byte in place cuts their families into heads, bodies and tails that go on in
// each other at single turns; all of them together are one piece.
TEST(BandTest, WindowsOnContiguousElementsAreOnePiece) {
  for_cases(2000, [](Random& random) {
    const auto whole = [&random] {
      const Offset period = random.between(1, 40);
      return Pattern{{{0, period - 1, 0, 1, {}}}, random.between(0, 20), period};
    };
    const Pattern a = whole();
    const Pattern b = whole();
    SCOPED_TRACE(concat("a = ", describe(a), "\nb = ", describe(b)));
    const Offset from = random.between(20, 200);
    const Offset length = random.between(1, 300);
    const Mapping mapping = windowed(a, b, {.file = {from, from + length}, .a = {}, .b = {}});
    const std::vector<Band> bands = bands_of(mapping, Order::kA);
    ASSERT_EQ(bands.size(), 1u);
    EXPECT_TRUE(bands.front().loops.empty());
    EXPECT_EQ(bands.front().piece.length, length);
  });
}

}  // namespace
}  // namespace weir::layout
