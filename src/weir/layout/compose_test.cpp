#include <weir/layout/mapping.h>

#include <gtest/gtest.h>

#include <map>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/generate.h>
#include <weir/layout/testing/oracle.h>

namespace weir::layout {
namespace {

using oracle::Pattern;
using oracle::Random;
using weir::testing::IsOk;

// Every byte of a finite mapping: a -> b.
std::map<Offset, Offset> expand(const Mapping& mapping) {
  std::map<Offset, Offset> bytes;
  for (const Run& run : mapping.runs()) {
    std::vector<Piece> pieces{{run.file, run.a, run.b, run.length}};
    for (const Loop& loop : mapping.loops(run)) {
      std::vector<Piece> more;
      for (const Piece& piece : pieces) {
        for (Offset i = 0; i < loop.count; ++i) {
          more.push_back({piece.file + i * loop.file, piece.a + i * loop.a, piece.b + i * loop.b, piece.length});
        }
      }
      pieces = std::move(more);
    }
    for (const Piece& piece : pieces) {
      for (Offset i = 0; i < piece.length; ++i) EXPECT_TRUE(bytes.emplace(piece.a + i, piece.b + i).second);
    }
  }
  return bytes;
}

TEST(ComposeTest, ReplacesOffsetsByMemory) {
  oracle::for_cases(3000, [](Random& random) {
    const Pattern a = oracle::random_pattern(random);
    const Pattern b = oracle::random_pattern(random);
    const Pattern m = oracle::random_pattern(random);
    SCOPED_TRACE(oracle::describe(a) + " and " + oracle::describe(b) + " in " + oracle::describe(m));
    const auto a_element = Element::create(a.set, a.placement());
    const auto b_element = Element::create(b.set, b.placement());
    const auto memory = Element::create(m.set, m.placement());
    ASSERT_THAT(a_element, IsOk());
    ASSERT_THAT(b_element, IsOk());
    ASSERT_THAT(memory, IsOk());
    if (memory->is_empty()) return;
    const auto mapping = intersect(*a_element, *b_element, Window{.file = {5, 300}, .a = {}, .b = {}});
    ASSERT_THAT(mapping, IsOk());
    const auto in_a = compose_a(*mapping, *memory);
    const auto in_b = compose_b(*mapping, *memory);
    ASSERT_THAT(in_a, IsOk());
    ASSERT_THAT(in_b, IsOk());
    std::map<Offset, Offset> expected_a;
    std::map<Offset, Offset> expected_b;
    for (const auto& byte : expand(*mapping)) {
      expected_a.emplace(*memory->unmap(byte.first), byte.second);
      expected_b.emplace(byte.first, *memory->unmap(byte.second));
    }
    ASSERT_EQ(expand(*in_a), expected_a);
    ASSERT_EQ(expand(*in_b), expected_b);
  });
}

TEST(ComposeTest, CostsByStructure) {
  // A column block of a large matrix, in memory with a leading dimension of its own.
  const Offset edge = Offset{1} << 24;
  const auto rows = Element::create({{0, edge / 4 - 1, edge, edge, {}}}, {.disp = 0, .period = edge * edge});
  const auto whole = Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1});
  const auto memory = Element::create({{0, edge / 4 - 1, edge / 4 + 64, edge, {}}}, {.disp = 0, .period = 0});
  ASSERT_THAT(rows, IsOk());
  ASSERT_THAT(whole, IsOk());
  ASSERT_THAT(memory, IsOk());
  const auto mapping = intersect(*rows, *whole);
  ASSERT_THAT(mapping, IsOk());
  const auto composed = compose_a(*mapping, *memory);
  ASSERT_THAT(composed, IsOk());
  EXPECT_EQ(composed->bytes(), mapping->bytes());
  EXPECT_LE(composed->node_count(), 2U);
}

}  // namespace
}  // namespace weir::layout
