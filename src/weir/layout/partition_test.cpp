#include <weir/layout/partition.h>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/layout/testing/generate.h>

namespace weir::layout {
namespace {

using oracle::Bytes;
using oracle::expand;
using oracle::for_cases;
using oracle::Random;
using ::testing::AllOf;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::IsOkAndHolds;
using weir::testing::StatusIs;

// The judge: array elements listed one by one, owners and places by definition.

/// All index tuples below `extents`, the last index fastest (C) or the first (F).
std::vector<std::vector<Offset>> index_tuples(const std::vector<Offset>& extents, ArrayOrder order) {
  std::vector<std::vector<Offset>> out{{}};
  for (std::size_t k = 0; k < extents.size(); ++k) {  // the slowest index first
    std::vector<std::vector<Offset>> longer;
    for (const auto& head : out) {
      const Offset extent = order == ArrayOrder::kC ? extents[k] : extents[extents.size() - 1 - k];
      for (Offset i = 0; i < extent; ++i) {
        longer.push_back(head);
        longer.back().insert(order == ArrayOrder::kC ? longer.back().end() : longer.back().begin(), i);
      }
    }
    out = std::move(longer);
  }
  return out;
}

Offset file_offset(const std::vector<Offset>& index, const std::vector<Offset>& shape, Offset elem, ArrayOrder order) {
  Offset number = 0;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const std::size_t d = order == ArrayOrder::kC ? k : shape.size() - 1 - k;
    number = number * shape[d] + index[d];
  }
  return number * elem;
}

void add_bytes(Bytes& out, Offset first, Offset count) {
  for (Offset i = 0; i < count; ++i) out.push_back(first + i);
}

std::vector<Bytes> elements_by_definition(const Stripe& stripe) {
  std::vector<Bytes> out;
  for (Offset i = 0; i < stripe.over; ++i) add_bytes(out.emplace_back(), i * stripe.unit, stripe.unit);
  return out;
}

Offset coordinate(const Hpf& hpf, std::size_t d, Offset index) {
  const Offset width = hpf.dist[d].width;
  switch (hpf.dist[d].kind) {
    case Dist::Kind::kWhole: return 0;
    case Dist::Kind::kBlock: {
      const Offset processes = hpf.grid[d];
      return index / (width != 0 ? width : (hpf.shape[d] + processes - 1) / processes);
    }
    case Dist::Kind::kCyclic: return index / (width != 0 ? width : 1) % hpf.grid[d];
  }
  return -1;
}

std::vector<Bytes> elements_by_definition(const Hpf& hpf) {
  std::size_t count = 1;
  for (const Offset processes : hpf.grid) count *= static_cast<std::size_t>(processes);
  std::vector<Bytes> out(count);
  for (const auto& index : index_tuples(hpf.shape, hpf.order)) {
    Offset owner = 0;
    for (std::size_t d = 0; d < index.size(); ++d) owner = owner * hpf.grid[d] + coordinate(hpf, d, index[d]);
    add_bytes(out.at(static_cast<std::size_t>(owner)), file_offset(index, hpf.shape, hpf.elem, hpf.order), hpf.elem);
  }
  return out;
}

std::vector<Bytes> elements_by_definition(const Tiles& tiles) {
  std::vector<Offset> grid;
  for (std::size_t d = 0; d < tiles.shape.size(); ++d) {
    grid.push_back((tiles.shape[d] + tiles.tile[d] - 1) / tiles.tile[d]);
  }
  std::vector<Bytes> out(static_cast<std::size_t>(tiles.over));
  std::size_t number = 0;
  for (const auto& tile : index_tuples(grid, tiles.order)) {
    Bytes& bytes = out[number++ % out.size()];
    for (auto index : index_tuples(tiles.tile, tiles.order)) {
      bool is_inside = true;
      for (std::size_t d = 0; d < index.size(); ++d) {
        index[d] += tile[d] * tiles.tile[d];
        is_inside = is_inside && index[d] < tiles.shape[d];
      }
      if (is_inside) add_bytes(bytes, file_offset(index, tiles.shape, tiles.elem, tiles.order), tiles.elem);
    }
  }
  return out;
}

std::vector<Bytes> elements_by_definition(const Explicit& description) {
  std::vector<Bytes> out;
  for (const FallsSet& set : description.elements) out.push_back(expand(set));
  return out;
}

Hpf random_hpf(Random& random) {
  Hpf hpf;
  hpf.elem = random.between(1, 3);
  hpf.order = random.chance(50) ? ArrayOrder::kFortran : ArrayOrder::kC;
  const Offset rank = random.between(1, 4);
  const Offset longest = rank == 1 ? 30 : rank == 2 ? 9 : rank == 3 ? 6 : 4;
  for (Offset d = 0; d < rank; ++d) {
    const Offset extent = random.between(1, longest);
    const auto kind = static_cast<Dist::Kind>(random.between(0, 2));
    const Offset processes = kind == Dist::Kind::kWhole ? 1 : random.between(1, 4);
    Offset width = 0;
    if (kind == Dist::Kind::kBlock && random.chance(40)) width = ceil_div(extent, processes) + random.between(0, 2);
    if (kind == Dist::Kind::kCyclic && random.chance(60)) width = random.between(1, 4);
    hpf.shape.push_back(extent);
    hpf.dist.push_back({kind, width});
    hpf.grid.push_back(processes);
  }
  return hpf;
}

Tiles random_tiles(Random& random) {
  Tiles tiles;
  tiles.elem = random.between(1, 3);
  tiles.over = random.between(1, random.chance(20) ? 40 : 7);
  tiles.order = random.chance(50) ? ArrayOrder::kFortran : ArrayOrder::kC;
  const Offset rank = random.between(1, 4);
  const Offset longest = rank == 1 ? 40 : rank == 2 ? 14 : rank == 3 ? 7 : 4;
  for (Offset d = 0; d < rank; ++d) {
    tiles.shape.push_back(random.between(1, longest));
    tiles.tile.push_back(random.between(1, random.chance(10) ? longest + 3 : 3));
  }
  return tiles;
}

/// Elements, owners and addresses of a partition against the judge's lists.
void expect_as_defined(const Partition& partition, const std::vector<Bytes>& elements) {
  ASSERT_EQ(partition.element_count(), static_cast<Offset>(elements.size()));
  std::vector<std::optional<Offset>> owners(static_cast<std::size_t>(partition.period()));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto element = partition.element(static_cast<Offset>(i));
    ASSERT_THAT(element, IsOk());
    ASSERT_EQ(expand(element->falls()), elements[i]) << "element " << i;
    ASSERT_EQ(element->disp(), partition.disp());
    ASSERT_EQ(element->period(), partition.period());
    for (std::size_t y = 0; y < elements[i].size(); ++y) {
      ASSERT_EQ(element->unmap(static_cast<Offset>(y)), partition.disp() + elements[i][y]);
      auto& owner = owners[static_cast<std::size_t>(elements[i][y])];
      if (!owner) owner = static_cast<Offset>(i);
    }
  }
  for (Offset x = 0; x < partition.period(); ++x) {
    const auto& owner = owners[static_cast<std::size_t>(x)];
    ASSERT_THAT(partition.owner(partition.disp() + x), IsOkAndHolds(owner)) << "byte " << x;
    ASSERT_THAT(partition.owner(partition.disp() + 3 * partition.period() + x), IsOkAndHolds(owner)) << "byte " << x;
  }
  ASSERT_THAT(partition.owner(partition.disp() - 1), IsOkAndHolds(std::nullopt));
}

template <typename Shape>
void expect_as_defined(const Shape& description, Offset disp) {
  const auto partition = Partition::create(description, {.disp = disp});
  ASSERT_THAT(partition, IsOk());
  SCOPED_TRACE(print(*partition));
  expect_as_defined(*partition, elements_by_definition(description));
}

TEST(PartitionPropertyTest, StripeIsAsDefined) {
  for_cases(500, [](Random& random) {
    expect_as_defined(Stripe{random.between(1, 20), random.between(1, 9)}, random.between(0, 5));
  });
}

TEST(PartitionPropertyTest, HpfIsAsDefined) {
  for_cases(4000, [](Random& random) { expect_as_defined(random_hpf(random), random.between(0, 5)); });
}

TEST(PartitionPropertyTest, TilesAreAsDefined) {
  for_cases(4000, [](Random& random) { expect_as_defined(random_tiles(random), random.between(0, 5)); });
}

TEST(PartitionPropertyTest, ExplicitIsAsDefined) {
  for_cases(1000, [](Random& random) {
    const Explicit description{oracle::random_partition(random, random.between(1, 30), random.between(1, 4))};
    expect_as_defined(description, random.between(0, 5));
  });
}

// Shapes of what is built.

FallsSet falls_of(std::string_view text, Offset index) {
  const auto partition = parse(text);
  EXPECT_THAT(partition, IsOk());
  const auto element = partition->element(index);
  EXPECT_THAT(element, IsOk());
  return element->falls();
}

TEST(PartitionTest, BuildsTilesOfOneElementAsOneNest) {
  const FallsSet set = falls_of("tiles(shape=[4096,4096], elem=8, tile=[256,256], over=4)", 1);
  EXPECT_EQ(print(set), "{(2048,8384511,8388608,16,{(0,8357887,8192,4,{(0,2047,32768,256)})})}");
}

TEST(PartitionTest, ReadsColumnMajorTilesAsTheMirrorImage) {
  EXPECT_EQ(falls_of("tiles(shape=[10,6], elem=4, tile=[3,2], over=2, order=F)", 1),
            falls_of("tiles(shape=[6,10], elem=4, tile=[2,3], over=2)", 1));
}

TEST(PartitionTest, FoldsDiagonalTiles) {
  // One tile more in a row than elements: the tiles of an element go down a diagonal.
  const FallsSet set = falls_of("tiles(shape=[999000,1001000], elem=1, tile=[1000,1000], over=1000)", 0);
  EXPECT_LE(node_count(set), 10) << print(set);
}

TEST(PartitionTest, NeedsFewNodesForHugeArrays) {
  for (const std::string_view text :
       {"tiles(shape=[1073741824,1073741824], elem=4, tile=[1000,1000], over=7)",
        "tiles(shape=[1073741824,1073741824], elem=4, tile=[1000,1000], over=7, order=F)",
        "hpf(shape=[1073741824,1073741824], elem=4, dist=(CYCLIC(1000),CYCLIC(1000)), grid=[3,5])",
        "hpf(shape=[1073741824,1073741824], elem=4, dist=(*,BLOCK), grid=[1,7], order=F)"}) {
    SCOPED_TRACE(text);
    for_cases(30, [&](Random& random) {
      const auto partition = parse(text);
      ASSERT_THAT(partition, IsOk());
      const Offset x = random.between(0, partition->period() - 1);
      const auto owner = partition->owner(x);
      ASSERT_THAT(owner, IsOk());
      ASSERT_TRUE(owner->has_value());
      for (Offset i = 0; i < partition->element_count(); ++i) {
        const auto element = partition->element(i);
        ASSERT_THAT(element, IsOk());
        ASSERT_LE(node_count(element->falls()), 200);
        const auto y = element->map(x);
        ASSERT_EQ(y.has_value(), i == **owner) << "byte " << x << " of element " << i;
        if (y) {
          ASSERT_EQ(element->unmap(*y), x);
        }
      }
    });
  }
}

TEST(PartitionTest, ElementsOfHugeArraysAddUpToTheArray) {
  for (const std::string_view text :
       {"tiles(shape=[1000003,999983,77], elem=3, tile=[100,97,10], over=11)",
        "tiles(shape=[1000003,999983,77], elem=3, tile=[100,97,10], over=11, order=F)",
        "hpf(shape=[1000003,999983,77], elem=3, dist=(CYCLIC(97),BLOCK,CYCLIC), grid=[2,3,4])"}) {
    SCOPED_TRACE(text);
    const auto partition = parse(text);
    ASSERT_THAT(partition, IsOk());
    Offset total = 0;
    for (Offset i = 0; i < partition->element_count(); ++i) total += size(partition->element(i)->falls());
    EXPECT_EQ(total, partition->period());
  }
}

TEST(PartitionTest, RefusesElementsWithTooManyNodes) {
  Hpf hpf;
  for (int d = 0; d < 26; ++d) {
    hpf.shape.push_back(5);
    hpf.dist.push_back({Dist::Kind::kCyclic, 2});
    hpf.grid.push_back(2);
  }
  const auto clipped = Partition::create(hpf);
  ASSERT_THAT(clipped, IsOk());
  EXPECT_THAT(clipped->element(0), StatusIs(ErrorCode::kTooComplex));

  const auto scattered = Partition::create(Tiles{{2000000, 2000000}, 1, {1, 1}, 999983});
  ASSERT_THAT(scattered, IsOk());
  EXPECT_THAT(scattered->element(5), StatusIs(ErrorCode::kTooComplex));
}

TEST(PartitionTest, MeetsTheNestingLimitWithAsManyDimensionsAsFit) {
  Tiles tiles{.shape = std::vector<Offset>(31, 4), .elem = 1, .tile = std::vector<Offset>(31, 2), .over = 1};
  const auto partition = Partition::create(tiles);
  ASSERT_THAT(partition, IsOk());
  EXPECT_EQ(partition->period(), kMaxBytes);
  const auto element = partition->element(0);
  ASSERT_THAT(element, IsOk());
  EXPECT_EQ(element->size(), kMaxBytes);
}

// Periods.

Offset period_of(std::string_view text) {
  const auto partition = parse(text);
  EXPECT_THAT(partition, IsOk());
  return partition.is_ok() ? partition->period() : -1;
}

TEST(PartitionTest, TakesThePeriodFromTheElements) {
  EXPECT_EQ(period_of("stripe(unit=3, over=5)"), 15);
  EXPECT_EQ(period_of("hpf(shape=[3,5], elem=4, dist=(BLOCK,*), grid=[2,1])"), 60);
  EXPECT_EQ(period_of("tiles(shape=[3,5], elem=4, tile=[2,2], over=3)"), 60);
  EXPECT_EQ(period_of("falls(disp=2, {(0,1,6,1)} | {(2,3,6,1)} | {(4,5,6,1)})"), 6);
  EXPECT_EQ(period_of("falls({(0,1,6,1)})"), 2) << "covers what it reaches";
  EXPECT_EQ(period_of("falls({(2,3,6,1)})"), 6) << "a gap: what is written as the stride counts";
  EXPECT_EQ(period_of("falls({(2,3,-,1)})"), 4);
  EXPECT_EQ(period_of("falls({(0,7,16,2,{(0,1,-,1)})})"), 32);
  EXPECT_EQ(period_of("falls({(0,7,16,2,{(0,1,99,1)})})"), 32) << "strides further inside do not count";
  EXPECT_EQ(period_of("falls(period=100, {(0,1,-,1)})"), 100);
  EXPECT_EQ(period_of("falls(period=2, {(0,1,6,1)})"), 2);
  EXPECT_EQ(period_of("falls({} | {(1,1,-,1)})"), 2);
  EXPECT_EQ(period_of("falls({(0,3,-,1)} | {(0,3,-,1)})"), 4) << "overlapping views";
}

TEST(PartitionTest, DropsTheStrideOfASingleBlock) {
  const auto partition = Partition::create(Explicit{{{{0, 7, 9, 1, {{2, 3, 5, 1, {}}}}}}});
  ASSERT_THAT(partition, IsOk());
  EXPECT_EQ(std::get<Explicit>(partition->description()), (Explicit{{{{0, 7, 0, 1, {{2, 3, 0, 1, {}}}}}}}));
  EXPECT_EQ(partition->period(), 8);
}

TEST(PartitionTest, OwnerOfAnExplicitIsTheFirstThatHoldsTheByte) {
  const auto partition =
      Partition::create(Explicit{{{{0, 3, 0, 1, {}}}, {{2, 5, 0, 1, {}}}}}, {.disp = 10, .period = 8});
  ASSERT_THAT(partition, IsOk());
  EXPECT_THAT(partition->owner(12), IsOkAndHolds(std::optional<Offset>(0)));
  EXPECT_THAT(partition->owner(14), IsOkAndHolds(std::optional<Offset>(1)));
  EXPECT_THAT(partition->owner(16), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(partition->owner(18), IsOkAndHolds(std::optional<Offset>(0)));
  EXPECT_THAT(partition->owner(9), IsOkAndHolds(std::nullopt));
}

TEST(PartitionTest, NamesElementsThatDoNotExist) {
  const auto partition = Partition::create(Stripe{4, 3});
  ASSERT_THAT(partition, IsOk());
  EXPECT_THAT(partition->element(3), StatusIs(ErrorCode::kOutOfRange, AllOf(HasSubstr("3"), HasSubstr("0 to 2"))));
  EXPECT_THAT(partition->element(-1), StatusIs(ErrorCode::kOutOfRange, HasSubstr("-1")));
}

// What create() refuses.

struct BadCase {
  Description description;
  Partition::Options options;
  ErrorCode code;
  std::string_view fragment;
};

TEST(PartitionTest, RefusesBadDescriptions) {
  const Dist whole{};
  const Dist block{Dist::Kind::kBlock, 0};
  const Offset edge = Offset{1} << 31;
  const FallsSet some{{2, 5, 0, 1, {}}};
  const BadCase cases[] = {
      {Stripe{0, 4}, {}, ErrorCode::kInvalidArgument, "unit must be at least 1"},
      {Stripe{4, 0}, {}, ErrorCode::kInvalidArgument, "over must be at least 1"},
      {Stripe{1, edge + 1}, {}, ErrorCode::kInvalidArgument, "2^31"},
      {Stripe{kMaxBytes, 2}, {}, ErrorCode::kOutOfRange, "2^62"},
      {Stripe{kMaxBytes, 1}, {.disp = 1}, ErrorCode::kOutOfRange, "displacement 1"},
      {Stripe{4, 4}, {.disp = -1}, ErrorCode::kInvalidArgument, "displacement must not be negative"},
      {Stripe{4, 4}, {.period = -1}, ErrorCode::kInvalidArgument, "period must not be negative"},
      {Stripe{4, 4}, {.period = 17}, ErrorCode::kInvalidArgument, "repeats every 16 bytes"},
      {Hpf{{}, 1, {}, {}}, {}, ErrorCode::kInvalidArgument, "shape needs at least one entry"},
      {Hpf{{4, 0}, 1, {whole, whole}, {1, 1}}, {}, ErrorCode::kInvalidArgument, "entry 1 of shape"},
      {Hpf{{4}, 0, {whole}, {1}}, {}, ErrorCode::kInvalidArgument, "elem must be at least 1"},
      {Hpf{{4, 4}, 1, {whole}, {1, 1}}, {}, ErrorCode::kInvalidArgument, "dist has 1 entries, but shape has 2"},
      {Hpf{{4, 4}, 1, {whole, whole}, {1}}, {}, ErrorCode::kInvalidArgument, "grid has 1 entries, but shape has 2"},
      {Hpf{{4}, 1, {block}, {0}}, {}, ErrorCode::kInvalidArgument, "entry 0 of grid"},
      {Hpf{{4, 4}, 1, {block, whole}, {2, 2}}, {}, ErrorCode::kInvalidArgument, "dimension 1 is not distributed"},
      {Hpf{{4, 16}, 1, {whole, {Dist::Kind::kBlock, 3}}, {1, 4}}, {}, ErrorCode::kInvalidArgument, "dimension 1"},
      {Hpf{{4, 16}, 1, {whole, {Dist::Kind::kBlock, 3}}, {1, 4}}, {}, ErrorCode::kInvalidArgument, "BLOCK(4)"},
      {Hpf{{4}, 1, {{Dist::Kind::kCyclic, -1}}, {1}}, {}, ErrorCode::kInvalidArgument, "width in dimension 0"},
      {Hpf{{4}, 1, {{Dist::Kind::kWhole, 2}}, {1}}, {}, ErrorCode::kInvalidArgument, "takes no width"},
      {Hpf{{edge, edge}, 2, {whole, whole}, {1, 1}}, {}, ErrorCode::kOutOfRange, "2^62"},
      {Hpf{{edge, edge, edge}, 1, {whole, whole, whole}, {1, 1, 1}}, {}, ErrorCode::kOutOfRange, "2^62"},
      {Hpf{{4, 4}, 1, {block, block}, {edge, 2}}, {}, ErrorCode::kInvalidArgument, "2^31"},
      {Hpf{{4, 4}, 1, {block, block}, {kMaxBytes, 4}}, {}, ErrorCode::kInvalidArgument, "2^31"},
      {Tiles{{4, 4}, 1, {2}, 1}, {}, ErrorCode::kInvalidArgument, "tile has 1 entries, but shape has 2"},
      {Tiles{{4}, 1, {0}, 1}, {}, ErrorCode::kInvalidArgument, "entry 0 of tile"},
      {Tiles{{4}, 1, {2}, 0}, {}, ErrorCode::kInvalidArgument, "over must be at least 1"},
      {Tiles{{4}, -8, {2}, 1}, {}, ErrorCode::kInvalidArgument, "elem must be at least 1"},
      {Tiles{{edge, edge}, 3, {2, 2}, 1}, {}, ErrorCode::kOutOfRange, "2^62"},
      {Explicit{}, {}, ErrorCode::kInvalidArgument, "at least one element"},
      {Explicit{{{}}}, {}, ErrorCode::kInvalidArgument, "need a period"},
      {Explicit{{some}}, {.period = 5}, ErrorCode::kInvalidArgument, "reaches to byte 5"},
      {Explicit{{some, {{5, 2, 0, 1, {}}}}}, {}, ErrorCode::kInvalidArgument, "(5,2,-,1)"},
      {Explicit{{{{1, 1, kMaxBytes / 2, 2, {}}}}}, {.disp = kMaxBytes / 2}, ErrorCode::kOutOfRange, "2^62"},
      {Explicit{{{{1, 1, kMaxBytes / 2 - 1, 3, {}}}}}, {}, ErrorCode::kOutOfRange, "2^62"},
      {Explicit{{some}}, {.period = kMaxBytes + 1}, ErrorCode::kOutOfRange, "2^62"},
  };
  for (const BadCase& bad : cases) {
    SCOPED_TRACE(bad.fragment);
    EXPECT_THAT(Partition::create(bad.description, bad.options).status(),
                StatusIs(bad.code, HasSubstr(std::string(bad.fragment))));
  }
}

TEST(PartitionTest, TakesTheLargestThatFits) {
  EXPECT_THAT(Partition::create(Stripe{kMaxBytes, 1}), IsOk());
  EXPECT_THAT(Partition::create(Stripe{kMaxBytes / 2, 1}, {.disp = kMaxBytes / 2}), IsOk());
  EXPECT_THAT(Partition::create(Stripe{1, Offset{1} << 31}), IsOk());
  EXPECT_THAT(Partition::create(Explicit{{{}}}, {.period = kMaxBytes}), IsOk());
  EXPECT_THAT(Partition::create(Hpf{{10}, 1, {{Dist::Kind::kBlock, kMaxBytes}}, {3}}), IsOk());
}

}  // namespace
}  // namespace weir::layout
