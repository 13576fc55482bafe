// The worked examples of Isaila and Tichy, "Mapping functions and data redistribution for parallel files", sections 4
// to 8, figure by figure.

#include <array>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/match.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using weir::testing::IsOk;

Mapping mapping_of(const Element& a, const Element& b) {
  auto mapping = intersect(a, b);
  EXPECT_THAT(mapping, IsOk());
  return mapping.is_ok() ? *mapping : Mapping{};
}

const FallsSet kFigure1 = {{3, 5, 6, 5, {}}};

TEST(PaperTest, Figure1FamilyOfLineSegments) {
  EXPECT_THAT(check(kFigure1), IsOk());
  EXPECT_EQ(size(kFigure1), 15);
  EXPECT_EQ(extent(kFigure1), 30);
  const Element element = oracle::make(kFigure1, {});
  EXPECT_TRUE(element.covers(9, 11 + 1));   // section 4.7: contiguous between 9 and 11,
  EXPECT_FALSE(element.covers(5, 11 + 1));  // but not between 5 and 11
}

TEST(PaperTest, Figure2NestedFalls) {
  const FallsSet set = {{0, 3, 8, 2, {{0, 0, 2, 2, {}}}}};
  EXPECT_EQ(oracle::expand(set), (oracle::Bytes{0, 2, 8, 10}));
  EXPECT_EQ(size(set), 4);  // section 4.6
  const Element element = oracle::make(set, {.period = 16});
  EXPECT_EQ(element.map(10), 3);
  EXPECT_EQ(element.unmap(3), 10);
}

TEST(PaperTest, Figure3TreeOfNestedFalls) {
  const FallsSet set = {{0, 15, 32, 2, {{0, 0, 4, 2, {}}, {8, 9, 4, 2, {}}}}};
  EXPECT_EQ(node_count(set), 3);
  EXPECT_EQ(size(set), 12);
  const Element element = oracle::make(set, {.period = 64});
  const oracle::Bytes bytes = {0, 4, 8, 9, 12, 13, 32, 36, 40, 41, 44, 45};
  for (std::size_t y = 0; y < bytes.size(); ++y) EXPECT_EQ(element.unmap(static_cast<Offset>(y)), bytes[y]);
}

TEST(PaperTest, Section44Simplification) {
  EXPECT_EQ(simplify({{0, 15, 32, 2, {{1, 3, 0, 1, {}}, {4, 6, 0, 1, {}}}}}), (FallsSet{{1, 6, 32, 2, {}}}));
  EXPECT_EQ(simplify({{0, 15, 32, 2, {{1, 6, 0, 1, {}}}}}), (FallsSet{{1, 6, 32, 2, {}}}));
  EXPECT_EQ(simplify({{1, 16, 32, 1, {{0, 0, 4, 2, {}}, {8, 9, 4, 2, {}}}}}),
            (FallsSet{{1, 1, 4, 2, {}}, {9, 10, 4, 2, {}}}));
}

TEST(PaperTest, Figure4FilePartition) {
  const auto partition =
      Partition::create(Explicit{{{{0, 1, 6, 1, {}}}, {{2, 3, 6, 1, {}}}, {{4, 5, 6, 1, {}}}}}, {.disp = 2});
  ASSERT_THAT(partition, IsOk());
  EXPECT_EQ(partition->period(), 6);
  EXPECT_EQ(partition->element_count(), 3);
  EXPECT_THAT(partition->validate(), IsOk());
  std::vector<Element> subfiles;
  for (Offset i = 0; i < 3; ++i) {
    const auto subfile = partition->element(i);
    ASSERT_THAT(subfile, IsOk());
    subfiles.push_back(*subfile);
  }
  EXPECT_EQ(subfiles[1].map(10), 2);  // section 6
  EXPECT_EQ(subfiles[1].unmap(2), 10);
  EXPECT_EQ(subfiles[0].map(5), std::nullopt);  // section 6.1
  EXPECT_EQ(subfiles[0].map_previous(5), 1);
  EXPECT_EQ(subfiles[0].map_next(5), 2);
  for (Offset x = 2; x < 32; ++x) {  // every arrow of the figure
    const Offset owner = (x - 2) / 2 % 3;
    for (Offset i = 0; i < 3; ++i) {
      const std::optional<Offset> y = (x - 2) / 6 * 2 + (x - 2) % 2;
      EXPECT_EQ(subfiles[static_cast<std::size_t>(i)].map(x), i == owner ? y : std::nullopt);
    }
  }
}

TEST(PaperTest, Section6ClosedForms) {
  const Element s = oracle::make({{0, 1, 0, 1, {}}}, {.disp = 2, .period = 6});
  for (Offset x = 2; x < 100; ++x) {
    if ((x - 2) % 6 < 2) {
      EXPECT_EQ(s.map(x), 2 * ((x - 2) / 6) + (x - 2) % 6);
    }
  }
  for (Offset y = 0; y < 50; ++y) {
    EXPECT_EQ(s.unmap(y), 2 + 6 * (y / 2) + y % 2);
    EXPECT_EQ(s.map(*s.unmap(y)), y);  // section 6.3
  }
}

TEST(PaperTest, Figure5IntersectionOfFalls) {
  const Mapping outer =
      mapping_of(oracle::make({{0, 7, 16, 2, {}}}, {.period = 32}), oracle::make({{0, 3, 8, 4, {}}}, {.period = 32}));
  EXPECT_EQ(outer.file_falls(), (FallsSet{{0, 3, 16, 2, {}}}));
  const Mapping inner =
      mapping_of(oracle::make({{0, 1, 4, 1, {}}}, {.period = 4}), oracle::make({{0, 0, 2, 2, {}}}, {.period = 4}));
  EXPECT_EQ(inner.file_falls(), (FallsSet{{0, 0, 0, 1, {}}}));
}

TEST(PaperTest, Section72Cut) {
  EXPECT_EQ(cut(kFigure1, 4, 28), (FallsSet{{0, 1, 0, 1, {}}, {5, 7, 6, 3, {}}, {23, 24, 0, 1, {}}}));
}

TEST(PaperTest, Figure6ExtendingAndAligning) {
  // Patterns of 3 and 4 bytes from displacements 5 and 3 on: a common pattern of 12 bytes from 5 on.
  const Element a = oracle::make({{0, 1, 0, 1, {}}}, {.disp = 5, .period = 3});
  const Element b = oracle::make({{1, 2, 0, 1, {}}}, {.disp = 3, .period = 4});
  const Mapping mapping = mapping_of(a, b);
  EXPECT_EQ(mapping.disp(), 5);
  EXPECT_EQ(mapping.period(), 12);
  EXPECT_EQ(mapping.a_period(), 8);
  EXPECT_EQ(mapping.b_period(), 6);
  // a: 5 6 8 9 11 12 14 15; b: 4 5 8 9 12 13 16 17
  const std::vector<oracle::Common> expected = {{5, 0, 1}, {8, 2, 2}, {9, 3, 3}, {12, 5, 4}};
  EXPECT_EQ(oracle::expand(mapping), expected);
}

// The view and the subfile of figures 7 and 8: 8 bytes each of a pattern of 32.  The inner FALLS of V is (0,1,4,2):
// only that gives the 8 bytes and the projection that the text states, and it is what figure 5(b) shows after the cut.
Element figure7_view() { return oracle::make({{0, 7, 16, 2, {{0, 1, 4, 2, {}}}}}, {.period = 32}); }
Element figure7_subfile() { return oracle::make({{0, 3, 8, 4, {{0, 0, 2, 2, {}}}}}, {.period = 32}); }

TEST(PaperTest, Figure7IntersectionAndProjections) {
  const Element view = figure7_view();
  const Element subfile = figure7_subfile();
  EXPECT_EQ(view.size(), 8);
  EXPECT_EQ(subfile.size(), 8);
  const Mapping mapping = mapping_of(view, subfile);
  EXPECT_EQ(mapping.period(), 32);
  EXPECT_EQ(mapping.bytes(), 2);
  EXPECT_EQ(mapping.file_falls(), (FallsSet{{0, 0, 16, 2, {}}}));
  EXPECT_EQ(simplify({{0, 3, 16, 2, {{0, 0, 4, 1, {}}}}}), mapping.file_falls());
  EXPECT_EQ(mapping.a_falls(), (FallsSet{{0, 0, 4, 2, {}}}));
  EXPECT_EQ(mapping.b_falls(), (FallsSet{{0, 0, 4, 2, {}}}));
  EXPECT_EQ(map_between(view, 4, subfile), 4);  // section 6.3
}

TEST(PaperTest, Figure7WithTheInnerFallsAsPrinted) {
  // Section 7.3 prints V with the inner FALLS (0,1,-,1): the same common bytes, but V has 4 bytes and the projection
  // moves.
  const Element view = oracle::make({{0, 7, 16, 2, {{0, 1, 0, 1, {}}}}}, {.period = 32});
  const Mapping mapping = mapping_of(view, figure7_subfile());
  EXPECT_EQ(view.size(), 4);
  EXPECT_EQ(mapping.file_falls(), (FallsSet{{0, 0, 16, 2, {}}}));
  EXPECT_EQ(mapping.a_falls(), (FallsSet{{0, 0, 2, 2, {}}}));
  EXPECT_EQ(mapping.b_falls(), (FallsSet{{0, 0, 4, 2, {}}}));
}

TEST(PaperTest, Figure8WriteThroughAView) {
  const Element view = figure7_view();
  const Element subfile = figure7_subfile();
  const Offset l_v = 0;
  const Offset r_v = 4;
  EXPECT_EQ(map_between(view, l_v, subfile), 0);  // l_s
  EXPECT_EQ(map_between(view, r_v, subfile), 4);  // r_s
  const Mapping mapping = mapping_of(view, subfile);
  const std::array<char, 5> buffer = {'a', 'b', 'c', 'd', 'e'};
  std::string net;  // the compute node gathers by the projection on the view
  for (const Offset y : oracle::expand(mapping.a_falls())) {
    if (l_v <= y && y <= r_v) net += buffer[static_cast<std::size_t>(y)];
  }
  EXPECT_EQ(net, "ae");
  std::string stored(8, '.');  // the I/O node scatters by the projection on the subfile
  std::size_t at = 0;
  for (const Offset z : oracle::expand(mapping.b_falls())) stored[static_cast<std::size_t>(z)] = net[at++];
  EXPECT_EQ(stored, "a...e...");
  // The same in one step.
  std::string direct(8, '.');
  PieceCursor cursor(view, subfile, Order::kA, {.file = {}, .a = {l_v, r_v + 1}, .b = {}});
  while (const auto piece = cursor.next()) {
    for (Offset i = 0; i < piece->length; ++i) {
      direct[static_cast<std::size_t>(piece->b + i)] = buffer[static_cast<std::size_t>(piece->a + i)];
    }
  }
  EXPECT_EQ(direct, stored);
}

Partition byte_matrix(Offset edge, std::vector<Dist> dist, std::vector<Offset> grid) {
  auto partition =
      Partition::create(Hpf{.shape = {edge, edge}, .elem = 1, .dist = std::move(dist), .grid = std::move(grid)});
  EXPECT_THAT(partition, IsOk());
  return *partition;
}

TEST(PaperTest, Figure9MatrixPartitionsAgainstRowBlocks) {
  constexpr Dist kWhole{Dist::Kind::kWhole, 0};
  constexpr Dist kBlock{Dist::Kind::kBlock, 0};
  for (const Offset edge : {256, 512, 1024, 2048, 4096}) {
    const Partition rows = byte_matrix(edge, {kBlock, kWhole}, {4, 1});
    const Partition blocks = byte_matrix(edge, {kBlock, kBlock}, {2, 2});
    const Partition columns = byte_matrix(edge, {kWhole, kBlock}, {1, 4});
    for (Offset i = 0; i < 4; ++i) {
      const auto view = rows.element(i);
      ASSERT_THAT(view, IsOk());
      const auto r = match(*view, rows);
      const auto b = match(*view, blocks);
      const auto c = match(*view, columns);
      ASSERT_THAT(r, IsOk());
      ASSERT_THAT(b, IsOk());
      ASSERT_THAT(c, IsOk());
      EXPECT_EQ(r->targets, 1);  // the contention that table 2 counts
      EXPECT_EQ(b->targets, 2);
      EXPECT_EQ(c->targets, 4);
      EXPECT_EQ(r->degree, 1);
      EXPECT_GT(r->degree, b->degree);  // the order of the throughputs in table 3
      EXPECT_GT(b->degree, c->degree);
    }
  }
}

}  // namespace
}  // namespace weir::layout
