#include <weir/layout/array_order.h>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/layout/testing/generate.h>
#include <weir/layout/testing/oracle.h>

namespace weir::layout {
namespace {

using oracle::Random;
using weir::testing::IsOk;
using weir::testing::StatusIs;

// The offset in a C-order file of the array entry that lies at `offset` of a Fortran-order file.
Offset turn(Offset offset, const std::vector<Offset>& shape) {
  std::vector<Offset> index(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    index[d] = offset % shape[d];
    offset /= shape[d];
  }
  Offset turned = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) turned = turned * shape[d] + index[d];
  return turned;
}

TEST(ArrayOrderTest, KeepsTheEntriesAndTheirOrder) {
  oracle::for_cases(2000, [](Random& random) {
    Hpf hpf{.shape = {},
            .elem = 1 + static_cast<Offset>(random.bits() % 3),
            .dist = {},
            .grid = {},
            .order = ArrayOrder::kFortran};
    const std::size_t rank = 1 + random.bits() % 3;
    for (std::size_t d = 0; d < rank; ++d) {
      hpf.shape.push_back(1 + static_cast<Offset>(random.bits() % 7));
      const auto kind = static_cast<Dist::Kind>(random.bits() % 3);
      hpf.dist.push_back({kind, kind == Dist::Kind::kCyclic ? static_cast<Offset>(random.bits() % 3) : 0});
      hpf.grid.push_back(kind == Dist::Kind::kWhole ? 1 : 1 + static_cast<Offset>(random.bits() % 3));
    }
    const auto partition = Partition::create(hpf);
    ASSERT_THAT(partition, IsOk());
    SCOPED_TRACE(print(*partition));
    const auto turned = in_c_order(*partition);
    ASSERT_THAT(turned, IsOk());
    ASSERT_THAT(turned->validate(), IsOk());
    ASSERT_EQ(turned->element_count(), partition->element_count());
    ASSERT_EQ(turned->period(), partition->period());
    for (Offset i = 0; i < partition->element_count(); ++i) {
      const auto before = partition->element(i);
      const auto after = turned->element(i);
      ASSERT_THAT(before, IsOk());
      ASSERT_THAT(after, IsOk());
      ASSERT_EQ(before->size(), after->size());
      for (Offset y = 0; y < before->size(); ++y) {
        const Offset x = *before->unmap(y);
        ASSERT_EQ(*after->unmap(y), turn(x / hpf.elem, hpf.shape) * hpf.elem + x % hpf.elem)
            << "element " << i << " byte " << y;
      }
    }
  });
}

TEST(ArrayOrderTest, LeavesTheRestAlone) {
  for (const char* text : {"stripe(unit=64K, over=4)", "hpf(shape=[4,6], elem=2, dist=(BLOCK,*), grid=[2,1])",
                           "tiles(shape=[8,8], elem=1, tile=[4,4], over=2)"}) {
    const auto partition = parse(text);
    ASSERT_THAT(partition, IsOk());
    const auto same = in_c_order(*partition);
    ASSERT_THAT(same, IsOk());
    EXPECT_EQ(print(*same), text);
  }
  const auto tiles = parse("tiles(shape=[8,8], tile=[4,4], over=2, order=F)");
  ASSERT_THAT(tiles, IsOk());
  EXPECT_THAT(in_c_order(*tiles), StatusIs(ErrorCode::kInvalidArgument));
}

TEST(ArrayOrderTest, CostsByStructure) {
  const auto partition = parse("hpf(shape=[1M,1M], elem=8, dist=(CYCLIC(4),BLOCK), grid=[2,2], order=F)");
  ASSERT_THAT(partition, IsOk());
  const auto turned = in_c_order(*partition);
  ASSERT_THAT(turned, IsOk());
  EXPECT_LE(node_count(std::get<Explicit>(turned->description()).elements[3]), 8);
}

}  // namespace
}  // namespace weir::layout
