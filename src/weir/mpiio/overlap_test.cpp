// Views that show bytes more than once, on files that are open for reading only.

#include <weir/mpiio/internal/testing.h>

namespace weir::mpiio::internal {
namespace {

constexpr int kOverlapFileBytes = 1000;

Type blocks_of_shorts(int count, int shorts, MPI_Aint stride) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_hvector(count, shorts, stride, MPI_SHORT, &type);
  return Type(type);
}

Type listed_shorts(std::vector<int> places) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_indexed_block(static_cast<int>(places.size()), 1, places.data(), MPI_SHORT, &type);
  return Type(type);
}

std::vector<Type> overlapping_types() {
  std::vector<Type> types;
  types.push_back(blocks_of_shorts(3, 2, 2));                     // each block with half of the one before
  types.push_back(resized(blocks_of_shorts(4, 1, 0), 0, 6));      // the same bytes four times
  types.push_back(resized(listed_shorts({0, 0, 1, 5}), 0, 4));    // twice in an item, and in several
  types.push_back(resized(contiguous(8, MPI_SHORT), 0, 4));       // only in several
  types.push_back(resized(vector_of(3, 1, 2, MPI_SHORT), 0, 4));  // the same with gaps
  return types;
}

void write_file(const std::string& name) {
  OpenedFile file(name);
  Bytes bytes(kOverlapFileBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_of(0, i);
  if (world_rank() == 0) {
    EXPECT_THAT(MPI_File_write_at(file, 0, bytes.data(), kOverlapFileBytes, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
  }
  file.close();
}

// Bytes [from, from + count) of the view, up to the first that the file does not have.
Bytes shown_bytes(const std::vector<std::size_t>& offsets, std::size_t disp, std::size_t from, std::size_t count) {
  Bytes bytes;
  for (std::size_t i = from; i < from + count && disp + offsets[i] < kOverlapFileBytes; ++i) {
    bytes.push_back(byte_of(0, disp + offsets[i]));
  }
  return bytes;
}

int bytes_in(const MPI_Status& status) {
  int count = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  return count;
}

TEST(OverlapTest, ShowsBytesTwiceToReaders) {
  const std::string name = test_name();
  write_file(name);
  for (const Type& filetype : overlapping_types()) {
    SCOPED_TRACE(extent_of(filetype));
    const std::size_t disp = 3 + static_cast<std::size_t>(world_rank());
    const std::vector<std::size_t> offsets = offsets_of(filetype, 600);
    OpenedFile file(name, MPI_MODE_RDONLY);
    ASSERT_THAT(MPI_File_set_view(file, static_cast<MPI_Offset>(disp), MPI_SHORT, filetype, "native", MPI_INFO_NULL),
                Succeeds());
    for (const std::size_t from : {0, 2, 5, 40, 333}) {
      for (const std::size_t shorts : {1, 3, 16, 150}) {
        SCOPED_TRACE(::testing::Message() << shorts << " at " << from);
        const Bytes wanted = shown_bytes(offsets, disp, 2 * from, 2 * shorts);
        Bytes read(2 * shorts);
        MPI_Status status;
        ASSERT_THAT(MPI_File_read_at_all(file, static_cast<MPI_Offset>(from), read.data(), static_cast<int>(shorts),
                                         MPI_SHORT, &status),
                    Succeeds());
        ASSERT_EQ(bytes_in(status), static_cast<int>(wanted.size()));
        read.resize(wanted.size());
        EXPECT_EQ(read, wanted);
        MPI_Offset byte = -1;
        EXPECT_THAT(MPI_File_get_byte_offset(file, static_cast<MPI_Offset>(from), &byte), Succeeds());
        EXPECT_EQ(byte, static_cast<MPI_Offset>(disp + offsets[2 * from]));
      }
    }
    // The first byte of the view behind the end of the file.
    EXPECT_THAT(MPI_File_seek(file, 0, MPI_SEEK_END), Succeeds());
    MPI_Offset position = -1;
    EXPECT_THAT(MPI_File_get_position(file, &position), Succeeds());
    EXPECT_EQ(position, static_cast<MPI_Offset>((shown_bytes(offsets, disp, 0, offsets.size()).size() + 1) / 2));
  }
}

TEST(OverlapTest, MemoryMayHaveGapsAndCallsNeedNotBlock) {
  const std::string name = test_name();
  write_file(name);
  const Type filetype = blocks_of_shorts(3, 2, 2);
  const std::vector<std::size_t> offsets = offsets_of(filetype, 20);
  OpenedFile file(name, MPI_MODE_RDONLY);
  ASSERT_THAT(MPI_File_set_view(file, 0, filetype, filetype, "native", MPI_INFO_NULL), Succeeds());
  const Type gapped = vector_of(30, 1, 2, MPI_SHORT);
  Bytes memory(120, 0xee);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  ASSERT_THAT(MPI_File_iread_at(file, 2, memory.data(), 1, gapped, &request), Succeeds());
  ASSERT_THAT(MPI_Wait(&request, &status), Succeeds());
  EXPECT_EQ(bytes_in(status), 60);
  const Bytes wanted = shown_bytes(offsets, 0, 24, 60);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(memory[i / 2 * 4 + i % 2], wanted[i]) << i;
  for (std::size_t i = 0; i + 2 < memory.size(); ++i) {
    if (i % 4 >= 2) {
      EXPECT_EQ(memory[i], 0xee) << i;
    }
  }
}

TEST(OverlapTest, WritersCannotHaveThem) {
  OpenedFile file(test_name());
  const int code = MPI_File_set_view(file, 0, MPI_SHORT, blocks_of_shorts(3, 2, 2), "native", MPI_INFO_NULL);
  EXPECT_THAT(code, FailsWith(MPI_ERR_TYPE));
  EXPECT_THAT(text_of(code), ::testing::HasSubstr("MPI_MODE_RDONLY"));
}

TEST(OverlapTest, DisplacementsMustNotDecrease) {
  const std::string name = test_name();
  write_file(name);
  OpenedFile file(name, MPI_MODE_RDONLY);
  EXPECT_THAT(MPI_File_set_view(file, 0, MPI_SHORT, listed_shorts({4, 4, 0}), "native", MPI_INFO_NULL),
              FailsWith(MPI_ERR_TYPE));
}

}  // namespace
}  // namespace weir::mpiio::internal
