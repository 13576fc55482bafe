// Lists of pieces against one byte at a time.

#include <map>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/generate.h>
#include <weir/transfer/internal/piece_list.h>

namespace weir::transfer::internal {
namespace {

using layout::Element;
using layout::oracle::Random;
using weir::testing::IsOk;
using Bytes = std::vector<std::byte>;

constexpr Offset kMost = 1 << 12;

Element random_element(Random& random) {
  const layout::oracle::Pattern pattern = layout::oracle::random_pattern(random);
  auto element = Element::create(pattern.set, {.disp = pattern.disp, .period = pattern.period});
  EXPECT_THAT(element, IsOk());
  return std::move(element).value();
}

// Byte of the subfile of each byte of the view that it has.
std::map<Offset, Offset> common(const Element& view, const Element& subfile, Range range) {
  std::map<Offset, Offset> out;
  for (Offset y = range.from; y < range.to; ++y) {
    if (const auto at = subfile.map(*view.unmap(y))) out[y] = *at;
  }
  return out;
}

void expect_moves_right(const Element& view, const Element& subfile, Range range, Random& random) {
  const PieceList list(view, subfile, range);
  ASSERT_TRUE(list.is_whole());
  const std::map<Offset, Offset> expected = common(view, subfile, range);
  ASSERT_EQ(list.bytes(), static_cast<Offset>(expected.size()));
  if (expected.empty()) return;
  Range extent{expected.begin()->second, 0};
  for (const auto& [y, at] : expected) extent = {std::min(extent.from, at), std::max(extent.to, at + 1)};
  ASSERT_EQ(list.extent().from, extent.from);
  ASSERT_EQ(list.extent().to, extent.to);
  Bytes memory(static_cast<std::size_t>(range.to - range.from));
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random.between(1, 255));
  Bytes stored(static_cast<std::size_t>(extent.to), std::byte{0});
  list.copy_to_b(memory.data(), stored.data() + extent.from);
  Bytes wanted(stored.size(), std::byte{0});
  for (const auto& [y, at] : expected)
    wanted[static_cast<std::size_t>(at)] = memory[static_cast<std::size_t>(y - range.from)];
  ASSERT_EQ(stored, wanted);
  Bytes back(memory.size(), std::byte{0});
  list.copy_to_a(stored.data() + extent.from, back.data());
  Bytes cleared = memory;
  list.clear_a(cleared.data());
  for (Offset y = range.from; y < range.to; ++y) {
    const auto i = static_cast<std::size_t>(y - range.from);
    ASSERT_EQ(back[i], expected.contains(y) ? memory[i] : std::byte{0}) << "byte " << y;
    ASSERT_EQ(cleared[i], expected.contains(y) ? std::byte{0} : memory[i]) << "byte " << y;
  }
}

TEST(PieceListTest, RandomViewsOfRandomSubfilesAgreeWithSingleBytes) {
  Random random(7);
  for (int i = 0; i < 3000 && !HasFatalFailure(); ++i) {
    const Element view = random_element(random);
    const Element subfile = random_element(random);
    if (view.is_empty() || subfile.is_empty()) continue;
    const Offset from = random.between(0, 2 * view.size());
    const Offset to = from + random.between(0, std::min(3 * view.size(), kMost));
    expect_moves_right(view, subfile, {from, to}, random);
  }
}

TEST(PieceListTest, LongRangesAreListedInParts) {
  // A byte of every three, of which the subfile has those of every other group of seven.
  const auto view = Element::create({{0, 0, 0, 1, {}}}, {.disp = 1, .period = 3});
  const auto subfile = Element::create({{0, 6, 0, 1, {}}}, {.disp = 0, .period = 14});
  ASSERT_THAT(view, IsOk());
  ASSERT_THAT(subfile, IsOk());
  constexpr Offset kBytes = 1 << 20;
  Offset bytes = 0;
  int lists = 0;
  for (Range rest{5, 5 + kBytes}; rest.from < rest.to; ++lists) {
    const PieceList list(*view, *subfile, rest);
    ASSERT_EQ(list.range().from, rest.from);
    ASSERT_GT(list.range().to, rest.from);
    ASSERT_EQ(list.is_whole(), list.range().to == rest.to);
    bytes += list.bytes();
    rest.from = list.range().to;
  }
  EXPECT_GT(lists, 1);
  EXPECT_EQ(bytes, kBytes / 2);
}

TEST(PieceListsTest, KeepTheListsUsedLast) {
  const auto view = Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 3});
  const auto subfile = Element::create({{0, 1, 0, 1, {}}}, {.disp = 0, .period = 4});
  ASSERT_THAT(view, IsOk());
  ASSERT_THAT(subfile, IsOk());
  PieceLists lists;
  const auto first = lists.of(*view, *subfile, {0, 100});
  EXPECT_EQ(lists.of(*view, *subfile, {0, 100}), first);
  EXPECT_NE(lists.of(*view, *subfile, {0, 99}), first);
  EXPECT_NE(lists.of(*view, *subfile, {1, 100}), first);
  for (Offset from = 2; from < 20; ++from) (void)lists.of(*view, *subfile, {from, 100});
  EXPECT_NE(lists.of(*view, *subfile, {0, 100}), first);
}

}  // namespace
}  // namespace weir::transfer::internal
