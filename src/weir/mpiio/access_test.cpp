// Every function that reads or writes, through views and memory of several shapes, against what they must do byte by
// byte.

#include <filesystem>
#include <utility>

#include <unistd.h>

#include <weir/mpiio/internal/testing.h>

namespace weir::mpiio::internal {
namespace {

// ---------------------------------------------------------------- the functions, all made to look alike

/// What an access is given; `offset` in etypes.
struct Call {
  MPI_File file;
  MPI_Offset offset;
  void* data;
  int count;
  MPI_Datatype type;
};
using Function = std::function<int(const Call&, MPI_Status*)>;

int waited(int code, MPI_Request& request, MPI_Status* status) {
  return code != MPI_SUCCESS ? code : MPI_Wait(&request, status);
}
// Individual pointers are moved there first.
int placed(const Call& c) { return MPI_File_seek(c.file, c.offset, MPI_SEEK_SET); }

struct Pair {
  const char* name;
  Function write;
  Function read;
};

#define WEIR_TEST_AT(function) \
  [](const Call& c, MPI_Status* s) { return MPI_File_##function(c.file, c.offset, c.data, c.count, c.type, s); }
#define WEIR_TEST_PLACED(function)                                  \
  [](const Call& c, MPI_Status* s) {                                \
    const int code = placed(c);                                     \
    if (code != MPI_SUCCESS) return code;                           \
    return MPI_File_##function(c.file, c.data, c.count, c.type, s); \
  }
#define WEIR_TEST_IAT(function)                                                                          \
  [](const Call& c, MPI_Status* s) {                                                                     \
    MPI_Request request = MPI_REQUEST_NULL;                                                              \
    return waited(MPI_File_##function(c.file, c.offset, c.data, c.count, c.type, &request), request, s); \
  }
#define WEIR_TEST_IPLACED(function)                                                            \
  [](const Call& c, MPI_Status* s) {                                                           \
    const int code = placed(c);                                                                \
    if (code != MPI_SUCCESS) return code;                                                      \
    MPI_Request request = MPI_REQUEST_NULL;                                                    \
    return waited(MPI_File_##function(c.file, c.data, c.count, c.type, &request), request, s); \
  }
#define WEIR_TEST_SPLIT_AT(function)                                                         \
  [](const Call& c, MPI_Status* s) {                                                         \
    const int code = MPI_File_##function##_begin(c.file, c.offset, c.data, c.count, c.type); \
    return code != MPI_SUCCESS ? code : MPI_File_##function##_end(c.file, c.data, s);        \
  }
#define WEIR_TEST_SPLIT(function)                                                                 \
  [](const Call& c, MPI_Status* s) {                                                              \
    int code = placed(c);                                                                         \
    if (code == MPI_SUCCESS) code = MPI_File_##function##_begin(c.file, c.data, c.count, c.type); \
    return code != MPI_SUCCESS ? code : MPI_File_##function##_end(c.file, c.data, s);             \
  }

const std::vector<Pair>& pairs() {
  static const std::vector<Pair> all{
      {"at", WEIR_TEST_AT(write_at), WEIR_TEST_AT(read_at)},
      {"at_all", WEIR_TEST_AT(write_at_all), WEIR_TEST_AT(read_at_all)},
      {"individual", WEIR_TEST_PLACED(write), WEIR_TEST_PLACED(read)},
      {"all", WEIR_TEST_PLACED(write_all), WEIR_TEST_PLACED(read_all)},
      {"i_at", WEIR_TEST_IAT(iwrite_at), WEIR_TEST_IAT(iread_at)},
      {"i_at_all", WEIR_TEST_IAT(iwrite_at_all), WEIR_TEST_IAT(iread_at_all)},
      {"i_individual", WEIR_TEST_IPLACED(iwrite), WEIR_TEST_IPLACED(iread)},
      {"i_all", WEIR_TEST_IPLACED(iwrite_all), WEIR_TEST_IPLACED(iread_all)},
      {"split_at_all", WEIR_TEST_SPLIT_AT(write_at_all), WEIR_TEST_SPLIT_AT(read_at_all)},
      {"split_all", WEIR_TEST_SPLIT(write_all), WEIR_TEST_SPLIT(read_all)},
  };
  return all;
}

// ---------------------------------------------------------------- shapes

struct View {
  const char* name;
  MPI_Offset disp;
  MPI_Datatype etype;
  Type filetype;
};

// Views of all ranks are disjoint, and fill less than 64 KiB in what is accessed.
View make_view(const std::string& shape, int rank, int ranks) {
  if (shape == "bytes") return {"bytes", 3 + 600 * rank, MPI_BYTE, contiguous(1, MPI_BYTE)};
  if (shape == "ints_cyclic") {
    const Type one = contiguous(2, MPI_INT);
    return {"ints_cyclic", 8 * rank, MPI_INT, resized(one, 0, 8 * ranks)};
  }
  if (shape == "columns") {
    // Array of 8 rows and 4 columns of doubles per rank; each rank has its columns.
    return {"columns", 16, MPI_DOUBLE, subarray({8, 4 * ranks}, {8, 4}, {0, 4 * rank}, MPI_DOUBLE)};
  }
  // A struct of an int and a short, after each other for all ranks, with holes.
  const int lengths[2] = {1, 1};
  const MPI_Aint places[2] = {16 * rank, 16 * rank + 10};
  const MPI_Datatype types[2] = {MPI_INT, MPI_SHORT};
  MPI_Datatype both = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(2, lengths, places, types, &both);
  const Type held(both);
  return {"struct", 0, MPI_BYTE, resized(held, 0, 16 * ranks)};
}

// Memory in one piece, and in pieces with gaps between.
struct MemoryShape {
  Type type;
  int count;
};
MemoryShape make_memory(const std::string& shape, std::size_t bytes) {
  const int count = static_cast<int>(bytes / 16);
  if (shape == "packed") return {contiguous(16, MPI_BYTE), count};
  return {resized(vector_of(4, 1, 3, MPI_INT), 0, 52), count};
}

// The same on all ranks, and another in every run.
int shared_number() {
  int number = static_cast<int>(::getpid());
  MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return number;
}

std::vector<std::size_t> file_offsets(const View& view, std::size_t from, std::size_t bytes) {
  const std::size_t per_type = size_of(view.filetype);
  const int count = static_cast<int>((from + bytes + per_type - 1) / per_type);
  std::vector<std::size_t> offsets = offsets_of(view.filetype, count);
  for (std::size_t& offset : offsets) offset += static_cast<std::size_t>(view.disp);
  return {offsets.begin() + static_cast<std::ptrdiff_t>(from),
          offsets.begin() + static_cast<std::ptrdiff_t>(from + bytes)};
}

// What all ranks' accesses of `bytes` from `from` on make of a new file.
Bytes expected_file(const std::string& shape, std::size_t from, std::size_t bytes) {
  Bytes expected;
  for (int rank = 0; rank < world_size(); ++rank) {
    const View view = make_view(shape, rank, world_size());
    const std::vector<std::size_t> at = file_offsets(view, from, bytes);
    expected.resize(std::max(expected.size(), *std::max_element(at.begin(), at.end()) + 1));
    for (std::size_t k = 0; k < bytes; ++k) expected[at[k]] = byte_of(rank, k);
  }
  return expected;
}

class AccessTest : public ::testing::TestWithParam<std::tuple<std::size_t, const char*, const char*>> {};

TEST_P(AccessTest, WritesAndReadsTheBytesOfTheView) {
  const auto& [function, view_shape, memory_shape] = GetParam();
  const Pair& pair = pairs()[function];
  const int rank = world_rank();
  constexpr std::size_t kBytes = 192;
  constexpr std::size_t kFrom = 48;  // of the view
  const std::string name = test_name();
  const View view = make_view(view_shape, rank, world_size());
  const MPI_Offset offset = static_cast<MPI_Offset>(kFrom / size_of(view.etype));
  const MemoryShape memory = make_memory(memory_shape, kBytes);
  const std::vector<std::size_t> places = offsets_of(memory.type, memory.count);
  Bytes buffer(places.back() + 1, 0);
  for (std::size_t k = 0; k < kBytes; ++k) buffer[places[k]] = byte_of(rank, k);

  OpenedFile file(name);
  ASSERT_THAT(MPI_File_set_view(file, view.disp, view.etype, view.filetype, "native", MPI_INFO_NULL), Succeeds());
  MPI_Status status;
  ASSERT_THAT(pair.write({file, offset, buffer.data(), memory.count, memory.type}, &status), Succeeds());
  int count = -1;
  MPI_Get_count(&status, memory.type, &count);
  EXPECT_EQ(count, memory.count);
  ASSERT_THAT(MPI_File_sync(file), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);

  const Bytes expected = expected_file(view_shape, kFrom, kBytes);
  EXPECT_EQ(contents(name), expected);

  Bytes read(buffer.size(), 0);
  ASSERT_THAT(pair.read({file, offset, read.data(), memory.count, memory.type}, &status), Succeeds());
  EXPECT_EQ(read, buffer);
  MPI_Get_count(&status, memory.type, &count);
  EXPECT_EQ(count, memory.count);
  MPI_Count elements = -1;
  MPI_Get_elements_x(&status, memory.type, &elements);
  EXPECT_EQ(elements, static_cast<MPI_Count>(std::string(memory_shape) == "packed" ? kBytes : kBytes / 4));
}

INSTANTIATE_TEST_SUITE_P(All, AccessTest,
                         ::testing::Combine(::testing::Range<std::size_t>(0, pairs().size()),
                                            ::testing::Values("bytes", "ints_cyclic", "columns", "struct"),
                                            ::testing::Values("packed", "gaps")),
                         [](const auto& given) {
                           return std::string(pairs()[std::get<0>(given.param)].name) + "_" + std::get<1>(given.param) +
                                  "_" + std::get<2>(given.param);
                         });

// What the tests expect is what the MPI itself does with a file of its own.
TEST(AccessOracleTest, AgreesWithTheMpiItself) {
  const auto path = std::filesystem::temp_directory_path() / ("weir-mpiio-oracle-" + std::to_string(shared_number()));
  for (const char* const shape : {"bytes", "ints_cyclic", "columns", "struct"}) {
    SCOPED_TRACE(shape);
    const View view = make_view(shape, world_rank(), world_size());
    constexpr std::size_t kBytes = 192;
    const Bytes expected = expected_file(shape, 0, kBytes);
    Bytes mine(kBytes);
    for (std::size_t k = 0; k < kBytes; ++k) mine[k] = byte_of(world_rank(), k);
    {
      OpenedFile file(path.string(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_EXCL);
      // ROMIO leaves rubbish in holes of a file that grows.
      ASSERT_THAT(MPI_File_set_size(file, static_cast<MPI_Offset>(expected.size())), Succeeds());
      ASSERT_THAT(MPI_File_set_view(file, view.disp, view.etype, view.filetype, "native", MPI_INFO_NULL), Succeeds());
      ASSERT_THAT(MPI_File_write_at(file, 0, mine.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(contents(path.string()), expected);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 0) std::filesystem::remove(path);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

// ---------------------------------------------------------------- the end of the file

class EndOfFileTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EndOfFileTest, ReadsTellHowMuchThereWas) {
  const Pair& pair = pairs()[GetParam()];
  OpenedFile file(test_name());
  const Bytes ten{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  if (world_rank() == 0) {
    ASSERT_THAT(MPI_File_write_at(file, 0, ten.data(), 10, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
  }
  ASSERT_THAT(MPI_File_sync(file), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);

  Bytes read(16, 99);
  MPI_Status status;
  ASSERT_THAT(pair.read({file, 4, read.data(), 4, MPI_INT}, &status), Succeeds());
  int count = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  EXPECT_EQ(count, 6);
  MPI_Get_count(&status, MPI_INT, &count);
  EXPECT_EQ(count, MPI_UNDEFINED);  // one and a half
  EXPECT_EQ(read, (Bytes{5, 6, 7, 8, 9, 10, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99}));

  ASSERT_THAT(pair.read({file, 100, read.data(), 4, MPI_INT}, &status), Succeeds());
  MPI_Get_count(&status, MPI_INT, &count);
  EXPECT_EQ(count, 0);
}

INSTANTIATE_TEST_SUITE_P(All, EndOfFileTest, ::testing::Range<std::size_t>(0, pairs().size()),
                         [](const auto& given) { return std::string(pairs()[given.param].name); });

}  // namespace
}  // namespace weir::mpiio::internal
