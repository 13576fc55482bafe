// File pointers of both kinds, representations, and atomic mode.

#include <cstdlib>
#include <cstring>

#include <weir/mpiio/internal/testing.h>

namespace weir::mpiio::internal {
namespace {

// ---------------------------------------------------------------- the individual pointer

TEST(IndividualPointerTest, MovesWithAccessesAndSeeks) {
  OpenedFile file(test_name(std::to_string(world_rank())), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_SELF);
  const Type strided = resized(MPI_INT, 0, 12);
  ASSERT_THAT(MPI_File_set_view(file, 4, MPI_INT, strided, "native", MPI_INFO_NULL), Succeeds());
  const std::vector<int> values{1, 2, 3, 4, 5};
  ASSERT_THAT(MPI_File_write(file, values.data(), 5, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  MPI_Offset at = -1;
  const auto position = [&] {
    EXPECT_THAT(MPI_File_get_position(file, &at), Succeeds());
    return at;
  };
  EXPECT_EQ(position(), 5);
  EXPECT_THAT(MPI_File_seek(file, -2, MPI_SEEK_CUR), Succeeds());
  EXPECT_EQ(position(), 3);
  EXPECT_THAT(MPI_File_seek(file, -1, MPI_SEEK_END), Succeeds());
  EXPECT_EQ(position(), 4);
  int last = 0;
  ASSERT_THAT(MPI_File_read(file, &last, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(last, 5);
  EXPECT_EQ(position(), 5);
  EXPECT_THAT(MPI_File_seek(file, -9, MPI_SEEK_CUR), FailsWith(MPI_ERR_ARG));
  EXPECT_EQ(position(), 5);
  MPI_Offset byte = -1;
  EXPECT_THAT(MPI_File_get_byte_offset(file, 3, &byte), Succeeds());
  EXPECT_EQ(byte, 4 + 3 * 12);
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_THAT(MPI_File_iwrite(file, values.data(), 2, MPI_INT, &request), Succeeds());
  EXPECT_EQ(position(), 7);
  EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), Succeeds());
  EXPECT_EQ(position(), 0);
}

// ---------------------------------------------------------------- the shared pointer

TEST(SharedPointerTest, GivesEveryPlaceOnce) {
  constexpr int kTimes = 20;
  const std::string name = test_name();
  OpenedFile file(name);
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), Succeeds());
  for (int i = 0; i < kTimes; ++i) {
    const int value = world_rank() * kTimes + i;
    if (i % 2 == 0) {
      ASSERT_THAT(MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    } else {
      MPI_Request request = MPI_REQUEST_NULL;
      ASSERT_THAT(MPI_File_iwrite_shared(file, &value, 1, MPI_INT, &request), Succeeds());
      ASSERT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
    }
  }
  ASSERT_THAT(MPI_File_sync(file), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Offset position = 0;
  EXPECT_THAT(MPI_File_get_position_shared(file, &position), Succeeds());
  EXPECT_EQ(position, kTimes * world_size());
  const Bytes bytes = contents(name);
  ASSERT_EQ(bytes.size(), sizeof(int) * static_cast<std::size_t>(kTimes * world_size()));
  std::vector<int> found(bytes.size() / sizeof(int));
  std::memcpy(found.data(), bytes.data(), bytes.size());
  std::sort(found.begin(), found.end());
  std::vector<int> all(found.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(found, all);

  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_THAT(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), Succeeds());
  int sum = 0;
  for (int i = 0; i < kTimes; ++i) {
    int value = 0;
    ASSERT_THAT(MPI_File_read_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    sum += value;
  }
  int total = 0;
  MPI_Allreduce(&sum, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(total, std::accumulate(all.begin(), all.end(), 0));
}

// Rank r has r + 1 ints, again and again.
TEST(SharedPointerTest, OrderedAccessesAreInTheOrderOfRanks) {
  const std::string name = test_name();
  const int rank = world_rank();
  const int ranks = world_size();
  OpenedFile file(name);
  ASSERT_THAT(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), Succeeds());
  for (int round = 0; round < 3; ++round) {
    const std::vector<int> mine(static_cast<std::size_t>(rank + 1), round * 100 + rank);
    if (round == 1) {
      ASSERT_THAT(MPI_File_write_ordered_begin(file, mine.data(), rank + 1, MPI_INT), Succeeds());
      ASSERT_THAT(MPI_File_write_ordered_end(file, mine.data(), MPI_STATUS_IGNORE), Succeeds());
    } else {
      ASSERT_THAT(MPI_File_write_ordered(file, mine.data(), rank + 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    }
  }
  std::vector<int> expected{0, 0};  // the displacement
  for (int round = 0; round < 3; ++round) {
    for (int r = 0; r < ranks; ++r) expected.insert(expected.end(), static_cast<std::size_t>(r + 1), round * 100 + r);
  }
  ASSERT_THAT(MPI_File_sync(file), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);
  const Bytes bytes = contents(name);
  std::vector<int> found(bytes.size() / sizeof(int));
  std::memcpy(found.data(), bytes.data(), bytes.size());
  EXPECT_EQ(found, expected);

  ASSERT_THAT(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), Succeeds());
  for (int round = 0; round < 3; ++round) {
    std::vector<int> read(static_cast<std::size_t>(rank + 1));
    if (round == 1) {
      ASSERT_THAT(MPI_File_read_ordered_begin(file, read.data(), rank + 1, MPI_INT), Succeeds());
      ASSERT_THAT(MPI_File_read_ordered_end(file, read.data(), MPI_STATUS_IGNORE), Succeeds());
    } else {
      ASSERT_THAT(MPI_File_read_ordered(file, read.data(), rank + 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    }
    EXPECT_EQ(read, std::vector<int>(read.size(), round * 100 + rank));
  }
}

TEST(SharedPointerTest, IsEachOpensOwn) {
  const std::string name = test_name();
  OpenedFile one(name);
  OpenedFile two(name);
  const int value = 3;
  ASSERT_THAT(MPI_File_write_ordered(one, &value, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  MPI_Offset position = -1;
  EXPECT_THAT(MPI_File_get_position_shared(two, &position), Succeeds());
  EXPECT_EQ(position, 0);
  EXPECT_THAT(MPI_File_get_position_shared(one, &position), Succeeds());
  EXPECT_EQ(position, 4 * world_size());
}

// ---------------------------------------------------------------- representations

TEST(RepresentationTest, External32IsBigEndian) {
  const std::string name = test_name();
  OpenedFile file(name);
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL), Succeeds());
  const std::vector<int> values{0x01020304, world_rank()};
  ASSERT_THAT(MPI_File_write_at(file, world_rank() * 2, values.data(), 2, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  ASSERT_THAT(MPI_File_sync(file), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);
  const Bytes bytes = contents(name);
  for (int r = 0; r < world_size(); ++r) {
    const Bytes expected{1, 2, 3, 4, 0, 0, 0, static_cast<unsigned char>(r)};
    EXPECT_EQ(Bytes(bytes.begin() + 8 * r, bytes.begin() + 8 * r + 8), expected);
  }
  std::vector<int> read(4, -1);
  MPI_Status status;
  ASSERT_THAT(MPI_File_read_at(file, world_size() * 2 - 2, read.data(), 4, MPI_INT, &status), Succeeds());
  int count = -1;
  MPI_Get_count(&status, MPI_INT, &count);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(read, (std::vector<int>{0x01020304, world_size() - 1, -1, -1}));
  MPI_Aint extent = 0;
  EXPECT_THAT(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent), Succeeds());
  EXPECT_EQ(extent, 8);
}

TEST(RepresentationTest, External32GoesThroughDerivedTypes) {
  const int rank = world_rank();
  OpenedFile file(test_name());
  const Type columns = subarray({4, 2 * world_size()}, {4, 2}, {0, 2 * rank}, MPI_DOUBLE);
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_DOUBLE, columns, "external32", MPI_INFO_NULL), Succeeds());
  const Type gaps = resized(vector_of(4, 1, 2, MPI_DOUBLE), 0, 64);
  std::vector<double> values(16);
  std::iota(values.begin(), values.end(), rank * 100.0);
  ASSERT_THAT(MPI_File_write_all(file, values.data(), 2, gaps, MPI_STATUS_IGNORE), Succeeds());
  ASSERT_THAT(MPI_File_seek(file, 0, MPI_SEEK_SET), Succeeds());
  std::vector<double> read(16, -1.0);
  ASSERT_THAT(MPI_File_read_all(file, read.data(), 2, gaps, MPI_STATUS_IGNORE), Succeeds());
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(read[i], i % 2 == 0 ? values[i] : -1.0) << i;
}

TEST(RepresentationTest, External32TakesAbsoluteAddresses) {
  OpenedFile file(test_name());
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL), Succeeds());
  int near = 42;
  int far[2] = {43, world_rank()};
  MPI_Aint addresses[2] = {};
  MPI_Get_address(&near, &addresses[0]);
  MPI_Get_address(far, &addresses[1]);
  const int lengths[2] = {1, 2};
  MPI_Datatype both = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed(2, lengths, addresses, MPI_INT, &both);
  MPI_Type_commit(&both);
  EXPECT_THAT(MPI_File_write_at(file, 3 * world_rank(), MPI_BOTTOM, 1, both, MPI_STATUS_IGNORE), Succeeds());
  near = far[0] = far[1] = 0;
  EXPECT_THAT(MPI_File_read_at(file, 3 * world_rank(), MPI_BOTTOM, 1, both, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(near, 42);
  EXPECT_EQ(far[0], 43);
  EXPECT_EQ(far[1], world_rank());
  MPI_Type_free(&both);
}

// A representation that inverts all bits.  Counts its calls in `extra`.
int invert(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position, void* extra, bool is_write) {
  ++*static_cast<int*>(extra);
  const auto bytes = size_of(type) * static_cast<std::size_t>(count);
  auto* const memory = static_cast<unsigned char*>(user) + static_cast<std::size_t>(position) * size_of(type);
  auto* const stored = static_cast<unsigned char*>(file);
  for (std::size_t i = 0; i < bytes; ++i) {
    (is_write ? stored : memory)[i] = static_cast<unsigned char>(~(is_write ? memory : stored)[i]);
  }
  return MPI_SUCCESS;
}
int invert_to_file(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position, void* extra) {
  return invert(user, type, count, file, position, extra, true);
}
int invert_from_file(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position, void* extra) {
  return invert(user, type, count, file, position, extra, false);
}
int same_extent(MPI_Datatype type, MPI_Aint* extent, void*) {
  *extent = extent_of(type);
  return MPI_SUCCESS;
}

TEST(RepresentationTest, OfTheProgramIsUsed) {
  static int calls = 0;
  const std::string name = test_name();
  ASSERT_THAT(MPI_Register_datarep("inverted", invert_from_file, invert_to_file, same_extent, &calls), Succeeds());
  EXPECT_THAT(MPI_Register_datarep("inverted", invert_from_file, invert_to_file, same_extent, &calls),
              FailsWith(MPI_ERR_DUP_DATAREP));
  OpenedFile file(name);
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "inverted", MPI_INFO_NULL), Succeeds());
  const int value = 0x01020300 + world_rank();
  ASSERT_THAT(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(calls, 1);
  int read = 0;
  ASSERT_THAT(MPI_File_read_at(file, world_rank(), &read, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(read, value);
  EXPECT_EQ(calls, 2);
  MPI_Barrier(MPI_COMM_WORLD);
  const Bytes bytes = contents(name);
  EXPECT_EQ(bytes[0], 0xff);
  EXPECT_EQ(bytes[1], 0xfc);
}

// ---------------------------------------------------------------- atomic mode

// All ranks write the same bytes in pieces, at the same time: the file ends up with the bytes of exactly one rank.
TEST(AtomicTest, OverlappingWritesDoNotMix) {
  const std::string name = test_name();
  OpenedFile file(name);
  ASSERT_THAT(MPI_File_set_atomicity(file, 1), Succeeds());
  int is_atomic = 0;
  ASSERT_THAT(MPI_File_get_atomicity(file, &is_atomic), Succeeds());
  EXPECT_EQ(is_atomic, 1);
  const Type pieces = resized(vector_of(64, 100, 200, MPI_BYTE), 0, 64 * 200);
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_BYTE, pieces, "native", MPI_INFO_NULL), Succeeds());
  constexpr int kBytes = 64 * 100;
  for (int round = 0; round < 5; ++round) {
    const Bytes mine(kBytes, static_cast<unsigned char>(1 + world_rank()));
    ASSERT_THAT(MPI_File_write_at(file, 0, mine.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
    Bytes read(kBytes);
    ASSERT_THAT(MPI_File_read_at(file, 0, read.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
    EXPECT_GE(read[0], 1);
    EXPECT_EQ(read, Bytes(kBytes, read[0])) << "mixed";
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

// ---------------------------------------------------------------- requests with gaps in memory

// By message, what does not fit into the buffers of the client is not read within the call, but when it is waited for;
// the type may be gone by then.
TEST(RequestTest, MemoryWithGapsGoesOnAfterTheCall) {
  const char* const direct = std::getenv("WEIR_DIRECT");
  const bool is_by_message = direct != nullptr && std::string(direct) == "off";
  constexpr int kMostInts = 21 << 18;  // 21 MiB
  const int ints = world_rank() == 0 ? kMostInts : 1000;
  OpenedFile file(test_name());
  const MPI_Offset at = world_rank() == 0 ? 0 : MPI_Offset{4} * (kMostInts + 1000 * world_rank());
  std::vector<int> memory(2 * static_cast<std::size_t>(ints));
  std::iota(memory.begin(), memory.end(), world_rank());
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const Type every_other = vector_of(ints, 1, 2, MPI_INT);
    ASSERT_THAT(MPI_File_iwrite_at(file, at, memory.data(), 1, every_other, &request), Succeeds());
  }
  ASSERT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
  std::vector<int> back(memory.size(), -1);
  {
    const Type every_other = vector_of(ints, 1, 2, MPI_INT);
    ASSERT_THAT(MPI_File_iread_at(file, at, back.data(), 1, every_other, &request), Succeeds());
  }
  EXPECT_TRUE(!is_by_message || world_rank() != 0 || back[back.size() - 2] == -1) << "read within the call";
  MPI_Status status;
  ASSERT_THAT(MPI_Wait(&request, &status), Succeeds());
  int count = 0;
  MPI_Get_count(&status, MPI_INT, &count);
  EXPECT_EQ(count, ints);
  for (std::size_t i = 1; i < memory.size(); i += 2) memory[i] = -1;
  EXPECT_TRUE(back == memory);
}

// ---------------------------------------------------------------- requests that fail

int refuse(void*, MPI_Datatype, int, void*, MPI_Offset, void*) { return MPI_ERR_CONVERSION; }

TEST(RequestTest, FailuresAreToldByWaiting) {
  ASSERT_THAT(MPI_Register_datarep("refused", refuse, MPI_CONVERSION_FN_NULL, same_extent, nullptr), Succeeds());
  OpenedFile file(test_name());
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "refused", MPI_INFO_NULL), Succeeds());
  int value = 5;
  ASSERT_THAT(MPI_File_write_at(file, world_rank(), &value, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  ASSERT_THAT(MPI_File_iread_at(file, world_rank(), &value, 1, MPI_INT, &requests[0]), Succeeds());
  EXPECT_THAT(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), FailsWith(MPI_ERR_CONVERSION));
  EXPECT_EQ(requests[0], MPI_REQUEST_NULL);
  ASSERT_THAT(MPI_File_iwrite_at(file, world_rank(), &value, 1, MPI_INT, &requests[0]), Succeeds());
  ASSERT_THAT(MPI_File_iread_at(file, world_rank(), &value, 1, MPI_INT, &requests[1]), Succeeds());
  MPI_Status statuses[2];
  EXPECT_EQ(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
  EXPECT_EQ(statuses[0].MPI_ERROR, MPI_SUCCESS);
  EXPECT_THAT(statuses[1].MPI_ERROR, FailsWith(MPI_ERR_CONVERSION));
  // Nothing is left over that would make later calls fail.
  int barrier_done = 0;
  MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
  while (barrier_done == 0) ASSERT_THAT(MPI_Test(&requests[0], &barrier_done, MPI_STATUS_IGNORE), Succeeds());
}

#if MPI_VERSION >= 4
TEST(LargeCountTest, FunctionsAreOursToo) {
  const std::string name = test_name();
  OpenedFile file(name);
  const int value = 77;
  ASSERT_THAT(MPI_File_write_at_all_c(file, world_rank() * 4, &value, MPI_Count{1}, MPI_INT, MPI_STATUS_IGNORE),
              Succeeds());
  int read = 0;
  ASSERT_THAT(MPI_File_read_at_c(file, world_rank() * 4, &read, MPI_Count{1}, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(read, 77);
  EXPECT_THAT(MPI_File_read_c(file, &read, MPI_Count{-1}, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_COUNT));
  MPI_Count extent = 0;
  EXPECT_THAT(MPI_File_get_type_extent_c(file, MPI_DOUBLE, &extent), Succeeds());
  EXPECT_EQ(extent, 8);
}

TEST(LargeCountTest, TypesMadeWithLargeCountsAreViewsAndMemory) {
  OpenedFile file(test_name());
  const MPI_Count lengths[2] = {1, 1};
  const MPI_Count places[2] = {0, MPI_Count{1} << 33};
  MPI_Datatype apart = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed_c(2, lengths, places, MPI_INT, &apart);
  MPI_Type_commit(&apart);
  MPI_Datatype gaps = MPI_DATATYPE_NULL;
  MPI_Type_vector_c(2, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  ASSERT_THAT(MPI_File_set_view(file, 4 * world_rank(), MPI_INT, apart, "native", MPI_INFO_NULL), Succeeds());
  const int values[3] = {world_rank(), -1, world_rank() + 10};
  EXPECT_THAT(MPI_File_write_all(file, values, 1, gaps, MPI_STATUS_IGNORE), Succeeds());
  int read[3] = {-2, -2, -2};
  EXPECT_THAT(MPI_File_read_at_all(file, 0, read, 1, gaps, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(read[0], world_rank());
  EXPECT_EQ(read[1], -2);
  EXPECT_EQ(read[2], world_rank() + 10);
  MPI_Offset size = 0;
  MPI_Barrier(MPI_COMM_WORLD);  // the collective calls need not have met
  EXPECT_THAT(MPI_File_get_size(file, &size), Succeeds());
  EXPECT_EQ(size, (MPI_Offset{1} << 33) + 4 * world_size());
  MPI_Type_free(&apart);
  MPI_Type_free(&gaps);
}

int invert_many_to_file(void* user, MPI_Datatype type, MPI_Count count, void* file, MPI_Offset position, void* extra) {
  return invert(user, type, static_cast<int>(count), file, position, extra, true);
}
int invert_many_from_file(void* user, MPI_Datatype type, MPI_Count count, void* file, MPI_Offset position,
                          void* extra) {
  return invert(user, type, static_cast<int>(count), file, position, extra, false);
}

TEST(LargeCountTest, RepresentationsAreUsed) {
  static int calls = 0;
  ASSERT_THAT(MPI_Register_datarep_c("inverted_many", invert_many_from_file, invert_many_to_file, same_extent, &calls),
              Succeeds());
  EXPECT_THAT(
      MPI_Register_datarep_c("inverted_many", MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C, same_extent, &calls),
      FailsWith(MPI_ERR_DUP_DATAREP));
  OpenedFile file(test_name());
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "inverted_many", MPI_INFO_NULL), Succeeds());
  const int value = 1000 + world_rank();
  ASSERT_THAT(MPI_File_write_at(file, world_rank(), &value, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  int read = 0;
  ASSERT_THAT(MPI_File_read_at(file, world_rank(), &read, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(read, value);
  EXPECT_EQ(calls, 2);
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), Succeeds());
  ASSERT_THAT(MPI_File_read_at(file, world_rank(), &read, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(read, ~value);
}
#endif

// ---------------------------------------------------------------- views kept by the file

TEST(ViewTest, IsGivenBackAsItWasSet) {
  OpenedFile file(test_name());
  {
    const Type filetype = vector_of(3, 2, 4, MPI_INT);
    ASSERT_THAT(MPI_File_set_view(file, 20, MPI_INT, filetype, "internal", MPI_INFO_NULL), Succeeds());
  }
  MPI_Offset disp = 0;
  MPI_Datatype etype = MPI_DATATYPE_NULL;
  MPI_Datatype filetype = MPI_DATATYPE_NULL;
  char datarep[MPI_MAX_DATAREP_STRING] = "";
  ASSERT_THAT(MPI_File_get_view(file, &disp, &etype, &filetype, datarep), Succeeds());
  EXPECT_EQ(disp, 20);
  EXPECT_EQ(etype, MPI_INT);
  EXPECT_EQ(size_of(filetype), 24u);
  EXPECT_EQ(extent_of(filetype), 40);
  EXPECT_STREQ(datarep, "internal");
  MPI_Type_free(&filetype);
}

// ---------------------------------------------------------------- requests

TEST(RequestTest, AllWaysOfWaitingWork) {
  OpenedFile file(test_name());
  constexpr int kCount = 6;
  std::vector<int> values(kCount);
  std::iota(values.begin(), values.end(), world_rank() * kCount);
  const auto start = [&] {
    std::vector<MPI_Request> requests(kCount, MPI_REQUEST_NULL);
    for (int i = 0; i < kCount; ++i) {
      EXPECT_THAT(MPI_File_iwrite_at(file, 4 * (world_rank() * kCount + i), &values[static_cast<std::size_t>(i)], 1,
                                     MPI_INT, &requests[static_cast<std::size_t>(i)]),
                  Succeeds());
    }
    return requests;
  };
  std::vector<MPI_Status> statuses(kCount);
  auto requests = start();
  EXPECT_THAT(MPI_Waitall(kCount, requests.data(), statuses.data()), Succeeds());
  for (const MPI_Status& status : statuses) {
    int count = 0;
    MPI_Get_count(&status, MPI_INT, &count);
    EXPECT_EQ(count, 1);
  }
  requests = start();
  int index = 0;
  for (int i = 0; i < kCount; ++i)
    EXPECT_THAT(MPI_Waitany(kCount, requests.data(), &index, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_THAT(MPI_Waitany(kCount, requests.data(), &index, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(index, MPI_UNDEFINED);
  requests = start();
  std::vector<int> indices(kCount);
  for (int done = 0, some = 0; done < kCount; done += some) {
    ASSERT_THAT(MPI_Waitsome(kCount, requests.data(), &some, indices.data(), statuses.data()), Succeeds());
    ASSERT_GT(some, 0);
  }
  requests = start();
  for (int flag = 0; flag == 0;)
    ASSERT_THAT(MPI_Testall(kCount, requests.data(), &flag, MPI_STATUSES_IGNORE), Succeeds());
  requests = start();
  for (MPI_Request& request : requests) EXPECT_THAT(MPI_Request_free(&request), Succeeds());
  file.close();  // what is under way ends before
  std::vector<int> found(static_cast<std::size_t>(kCount));
  OpenedFile again(test_name(), MPI_MODE_RDONLY);
  ASSERT_THAT(MPI_File_read_at(again, 4 * world_rank() * kCount, found.data(), kCount, MPI_INT, MPI_STATUS_IGNORE),
              Succeeds());
  EXPECT_EQ(found, values);
}

}  // namespace
}  // namespace weir::mpiio::internal
