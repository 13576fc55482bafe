// What I/O libraries do and few programs: views of HDF5 whose items overlap, and PnetCDF's ways around MPI-IO.

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <weir/mpiio/internal/testing.h>

extern "C" {
int ncmpi_inq_file_format(const char* name, int* format);
int ncmpi_create(MPI_Comm comm, const char* name, int mode, MPI_Info info, int* id);
}

namespace weir::mpiio::internal {
namespace {

// ---------------------------------------------------------------- HDF5

// Four ints, of which the next item would hold three again, or every second int, of which the next holds one again.
Type overlapping(bool is_dense) {
  return is_dense ? resized(contiguous(4, MPI_INT), 0, 4) : resized(vector_of(3, 1, 2, MPI_INT), 0, 16);
}

TEST(OverlappingItemsTest, TheFirstCanBeUsed) {
  for (const bool is_dense : {true, false}) {
    const Type filetype = overlapping(is_dense);
    const int count = static_cast<int>(size_of(filetype) / sizeof(int));
    const MPI_Offset disp = 8 + 32 * world_rank();
    const std::string name = test_name(is_dense ? "-dense" : "-loose");
    std::vector<int> mine(static_cast<std::size_t>(count));
    std::iota(mine.begin(), mine.end(), 10 * world_rank() + 1);
    OpenedFile file(name);
    ASSERT_THAT(MPI_File_set_view(file, disp, MPI_INT, filetype, "native", MPI_INFO_NULL), Succeeds());
    ASSERT_THAT(MPI_File_write_at_all(file, 0, mine.data(), count, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    std::vector<int> read(mine.size(), -1);
    ASSERT_THAT(MPI_File_read_at_all(file, 0, read.data(), count, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    EXPECT_EQ(read, mine);

    ASSERT_THAT(MPI_File_set_view(file, disp, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), Succeeds());
    std::vector<int> all(8, -1);
    ASSERT_THAT(MPI_File_read_at(file, 0, all.data(), is_dense ? 4 : 5, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(all[static_cast<std::size_t>(is_dense ? i : 2 * i)], mine[static_cast<std::size_t>(i)]) << i;
    }
  }
}

TEST(OverlappingItemsTest, TheSecondIsAnErrorAndNothingIsWritten) {
  OpenedFile file(test_name());
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, overlapping(true), "native", MPI_INFO_NULL), Succeeds());
  const std::vector<int> five(5, 7);
  EXPECT_NE(MPI_File_write_at(file, 0, five.data(), 5, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
  EXPECT_NE(MPI_File_write_at(file, 4, five.data(), 1, MPI_INT, MPI_STATUS_IGNORE), MPI_SUCCESS);
  MPI_Offset size = -1;
  EXPECT_THAT(MPI_File_get_size(file, &size), Succeeds());
  EXPECT_EQ(size, 0);
}

// ---------------------------------------------------------------- PnetCDF; its numbers are those of pnetcdf.h

constexpr int kNoClobber = 0x4;
constexpr int kExists = -35;
constexpr int kNoNetcdf = -51;
constexpr int kFileError = -204;
constexpr int kNotFound = -220;

// The code, or the format.
int format_of_file_with(const std::string& bytes) {
  const std::string name = test_name("-" + std::to_string(world_rank()));
  {
    OpenedFile file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_SELF);
    EXPECT_THAT(MPI_File_set_size(file, 0), Succeeds());
    EXPECT_THAT(MPI_File_write(file, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, MPI_STATUS_IGNORE),
                Succeeds());
  }
  int format = 99;
  const int code = ncmpi_inq_file_format(name.c_str(), &format);
  EXPECT_EQ(code != 0, format == -1);
  return code != 0 ? code : format;
}

TEST(PnetcdfTest, KnowsTheFormatOfOurFiles) {
  EXPECT_EQ(format_of_file_with("CDF\001 and so on"), 1);
  EXPECT_EQ(format_of_file_with("CDF\002 and so on"), 2);
  EXPECT_EQ(format_of_file_with("CDF\005 and so on"), 5);
  EXPECT_EQ(format_of_file_with("\211HDF\r\n\032\n and so on"), 3);
  EXPECT_EQ(format_of_file_with("CDF\007 and so on"), kNoNetcdf);
  EXPECT_EQ(format_of_file_with("CDF"), kNoNetcdf);
  EXPECT_EQ(format_of_file_with(""), kNoNetcdf);
  int format = 99;
  EXPECT_EQ(ncmpi_inq_file_format(test_name("-missing").c_str(), &format), kNotFound);
  EXPECT_EQ(ncmpi_inq_file_format(test_name("-missing").c_str(), nullptr), 0);
}

TEST(PnetcdfTest, DoesNotReplaceOurFileUnasked) {
  const std::string name = test_name();
  OpenedFile(name).close();
  int id = -1;
  EXPECT_EQ(ncmpi_create(MPI_COMM_WORLD, name.c_str(), kNoClobber, MPI_INFO_NULL, &id), kExists);
}

TEST(PnetcdfTest, DoesNotTouchALocalFileOfThatName) {
  const auto path = std::filesystem::temp_directory_path() / ("weir-local-" + std::to_string(::getpid()));
  std::ofstream(path) << "precious";
  int id = -1;
  EXPECT_EQ(ncmpi_create(MPI_COMM_SELF, ("weir:" + path.string()).c_str(), 0, MPI_INFO_NULL, &id), kFileError);
  EXPECT_EQ(std::filesystem::file_size(path), 8U);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace weir::mpiio::internal
