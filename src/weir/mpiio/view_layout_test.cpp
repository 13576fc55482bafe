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
    EXPECT_THAT(hint_of(file, "weir_layout"), HasSubstr("falls("));
    EXPECT_EQ(hint_of(file, "striping_factor"), std::to_string(ranks));
    EXPECT_EQ(hint_of(file, "striping_unit"), "(none)") << "it is not striped any more";
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

MPI_File open_as_viewed(const std::string& name, int amode = MPI_MODE_WRONLY) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "weir_layout", "view");
  MPI_File file = MPI_FILE_NULL;
  EXPECT_THAT(MPI_File_open(MPI_COMM_WORLD, name.c_str(), MPI_MODE_CREATE | amode, info, &file), Succeeds());
  MPI_Info_free(&info);
  return file;
}

constexpr int kHeaderInts = 10;

Type my_columns() { return subarray({4, 4 * world_size()}, {4, 4}, {0, 4 * world_rank()}, MPI_INT); }

void expect_header_and_columns(const std::string& name) {
  const Bytes bytes = contents(name);
  std::vector<int> found(bytes.size() / 4);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<unsigned char*>(found.data()));
  ASSERT_EQ(found.size(), static_cast<std::size_t>(kHeaderInts + 16 * world_size()));
  for (int i = 0; i < kHeaderInts; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)], 7000 + i);
  for (int i = 0; i < 16 * world_size(); ++i) {
    const int row = i / (4 * world_size());
    const int column = i % (4 * world_size());
    EXPECT_EQ(found[static_cast<std::size_t>(kHeaderInts + i)], 100 * (column / 4) + row * 4 + column % 4) << i;
  }
}

// As simulations do: the size first, a header of one rank, then all ranks their parts.
TEST(ViewLayoutTest, AppliesToFilesThatStartWithAHeader) {
  std::vector<int> header(kHeaderInts);
  std::iota(header.begin(), header.end(), 7000);
  std::vector<int> mine(16);
  std::iota(mine.begin(), mine.end(), 100 * world_rank());
  for (const bool is_split : {false, true}) {
    const std::string name = test_name(is_split ? "-split" : "");
    MPI_File file = open_as_viewed(name);
    ASSERT_THAT(MPI_File_set_size(file, 4 * (kHeaderInts + 16 * world_size())), Succeeds());
    if (world_rank() == 0) {
      ASSERT_THAT(MPI_File_write_at(file, 0, header.data(), 4 * kHeaderInts, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
    }
    ASSERT_THAT(MPI_File_set_view(file, 4 * kHeaderInts, MPI_INT, my_columns(), "native", MPI_INFO_NULL), Succeeds());
    EXPECT_THAT(hint_of(file, "weir_layout"), HasSubstr("stripe("));
    if (is_split) {
      ASSERT_THAT(MPI_File_write_all_begin(file, mine.data(), 16, MPI_INT), Succeeds());
      ASSERT_THAT(MPI_File_write_all_end(file, mine.data(), MPI_STATUS_IGNORE), Succeeds());
    } else {
      ASSERT_THAT(MPI_File_write_all(file, mine.data(), 16, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    }
    EXPECT_THAT(hint_of(file, "weir_layout"), HasSubstr("falls("));
    ASSERT_THAT(MPI_File_close(&file), Succeeds());
    expect_header_and_columns(name);
  }
}

// As I/O libraries do: all ranks see the whole file while the header is written.
TEST(ViewLayoutTest, WaitsForViewsThatCanBeALayout) {
  if (world_size() < 2) GTEST_SKIP() << "one rank may see the whole file";
  std::vector<int> header(kHeaderInts);
  std::iota(header.begin(), header.end(), 7000);
  std::vector<int> mine(16);
  std::iota(mine.begin(), mine.end(), 100 * world_rank());
  const std::string name = test_name();
  MPI_File file = open_as_viewed(name);
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), Succeeds());
  ASSERT_THAT(MPI_File_write_at_all(file, 0, header.data(), world_rank() == 0 ? 4 * kHeaderInts : 0, MPI_BYTE,
                                    MPI_STATUS_IGNORE),
              Succeeds());
  EXPECT_THAT(hint_of(file, "weir_layout"), HasSubstr("stripe("));
  ASSERT_THAT(MPI_File_set_view(file, 4 * kHeaderInts, MPI_INT, my_columns(), "native", MPI_INFO_NULL), Succeeds());
  ASSERT_THAT(MPI_File_write_all(file, mine.data(), 16, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_THAT(hint_of(file, "weir_layout"), HasSubstr("falls("));
  // It stays whatever views come later.
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), Succeeds());
  EXPECT_THAT(hint_of(file, "weir_layout"), HasSubstr("falls("));
  ASSERT_THAT(MPI_File_close(&file), Succeeds());
  expect_header_and_columns(name);
}

// The first collective write exchanges views; ranks that make another call must not be taken for part of that.
TEST(ViewLayoutTest, CallsThatDifferAreNamedAtTheFirstWrite) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  MPI_File file = open_as_viewed(test_name(), MPI_MODE_RDWR);
  ASSERT_THAT(MPI_File_set_size(file, 1000), Succeeds());
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, my_columns(), "native", MPI_INFO_NULL), Succeeds());
  int value = 0;
  int code = world_rank() == 0 ? MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE)
                               : MPI_File_read_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS) code = MPI_File_sync(file);
  EXPECT_THAT(code, FailsWith(MPI_ERR_NOT_SAME));
  EXPECT_THAT(text_of(code), HasSubstr("rank 0: MPI_File_write_all"));
  EXPECT_THAT(MPI_File_close(&file), Succeeds());
}

}  // namespace
}  // namespace weir::mpiio::internal
