// Layouts made of views, as MPI programs get them; layout/view_layout_test.cpp has the rest.

#include <numeric>

#include <weir/mpiio/internal/testing.h>

namespace weir::mpiio::internal {
namespace {

using ::testing::HasSubstr;

// Rank i's columns are subfile i, and another number of ranks reads them.
TEST(ViewLayoutTest, IsThatOfTheFirstViews) {
  const std::string name = test_name();
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "weir_layout", "view");
  const int rank = world_rank();
  const int ranks = world_size();
  {
    OpenedFile file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, info);
    const Type columns = subarray({4, 4 * ranks}, {4, 4}, {0, 4 * rank}, MPI_INT);
    ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, columns, "native", MPI_INFO_NULL), Succeeds());
    std::vector<int> mine(16);
    std::iota(mine.begin(), mine.end(), 100 * rank);
    ASSERT_THAT(MPI_File_write_all(file, mine.data(), 16, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    MPI_Info used = MPI_INFO_NULL;
    ASSERT_THAT(MPI_File_get_info(file, &used), Succeeds());
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int is_there = 0;
    MPI_Info_get(used, "weir_layout", MPI_MAX_INFO_VAL, value, &is_there);
    EXPECT_THAT(value, HasSubstr("falls("));
    MPI_Info_get(used, "striping_factor", MPI_MAX_INFO_VAL, value, &is_there);
    EXPECT_EQ(value, std::to_string(ranks));
    MPI_Info_get(used, "striping_unit", MPI_MAX_INFO_VAL, value, &is_there);
    EXPECT_EQ(is_there, 0) << "it is striped no more, but has a unit of " << value;
    MPI_Info_free(&used);
  }
  MPI_Info_free(&info);
  const Bytes bytes = contents(name);
  ASSERT_EQ(bytes.size(), static_cast<std::size_t>(64 * ranks));
  std::vector<int> found(bytes.size() / 4);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<unsigned char*>(found.data()));
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 4 * ranks; ++column) {
      EXPECT_EQ(found[static_cast<std::size_t>(row * 4 * ranks + column)], 100 * (column / 4) + row * 4 + column % 4);
    }
  }
}

}  // namespace
}  // namespace weir::mpiio::internal
