// Collective accesses in two phases: the same bytes as ever, through windows of any size, and the same errors on all
// ranks.

#include <random>

#include <weir/mpiio/internal/testing.h>

namespace weir::mpiio::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Hints {
 public:
  Hints(std::initializer_list<std::pair<const char*, std::string>> values) {
    MPI_Info_create(&info_);
    for (const auto& [key, value] : values) MPI_Info_set(info_, key, value.c_str());
  }
  Hints(const Hints&) = delete;
  Hints& operator=(const Hints&) = delete;
  ~Hints() { MPI_Info_free(&info_); }
  operator MPI_Info() const { return info_; }  // NOLINT: implicit on purpose

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

// Each rank has every so-many-th piece.
Type cyclic(int piece, int pieces) {
  const Type vector = vector_of(pieces, piece, piece * world_size(), MPI_BYTE);
  return resized(vector, 0, MPI_Aint{piece} * pieces * world_size());
}

class TogetherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (world_size() == 1) GTEST_SKIP() << "needs company";
  }
};

constexpr int kPiece = 24;
constexpr int kPieces = 500;

Bytes mine(std::size_t bytes, int rank = world_rank()) {
  Bytes data(bytes);
  for (std::size_t k = 0; k < bytes; ++k) data[k] = byte_of(rank, k);
  return data;
}

// What a file of interleaved pieces must hold.
Bytes expected_file(std::size_t bytes_each) {
  Bytes all(bytes_each * static_cast<std::size_t>(world_size()));
  for (int rank = 0; rank < world_size(); ++rank) {
    const Bytes data = mine(bytes_each, rank);
    for (std::size_t k = 0; k < bytes_each; ++k) {
      const std::size_t piece = k / kPiece * static_cast<std::size_t>(world_size()) + static_cast<std::size_t>(rank);
      all[piece * kPiece + k % kPiece] = data[k];
    }
  }
  return all;
}

TEST_F(TogetherTest, InterleavedPiecesComeTogetherInWindowsOfAnySize) {
  for (const char* const window : {"1", "700", "4096", "100000", "16777216"}) {
    for (const char* const owners : {"1", "2", "100"}) {
      if (std::string(window) == "1" && std::string(owners) != "1") continue;  // many rounds
      SCOPED_TRACE(std::string("window ") + window + ", owners " + owners);
      const int pieces = std::string(window) == "1" ? 5 : kPieces;
      const std::size_t bytes = std::size_t{kPiece} * static_cast<std::size_t>(pieces);
      const Hints hints{{"weir_collective", "two-phase"}, {"cb_buffer_size", window}, {"cb_nodes", owners}};
      const std::string name = test_name(std::string(".") + window + "." + owners);
      OpenedFile file(name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, hints);
      ASSERT_THAT(
          MPI_File_set_view(file, kPiece * world_rank(), MPI_BYTE, cyclic(kPiece, pieces), "native", MPI_INFO_NULL),
          Succeeds());
      const Bytes data = mine(bytes);
      MPI_Status status;
      ASSERT_THAT(MPI_File_write_all(file, data.data(), static_cast<int>(bytes), MPI_BYTE, &status), Succeeds());
      int count = 0;
      MPI_Get_count(&status, MPI_BYTE, &count);
      EXPECT_EQ(count, static_cast<int>(bytes));
      EXPECT_THAT(hint_of(file, "weir_collective_last"), StartsWith("two-phase"));
      MPI_Barrier(MPI_COMM_WORLD);
      EXPECT_EQ(contents(name), expected_file(bytes));
      Bytes back(bytes);
      ASSERT_THAT(MPI_File_read_at_all(file, 0, back.data(), static_cast<int>(bytes), MPI_BYTE, &status), Succeeds());
      EXPECT_EQ(back, data);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

TEST_F(TogetherTest, MemoryMayHaveGaps) {
  const Hints hints{{"weir_collective", "two-phase"}, {"cb_buffer_size", "5000"}};
  OpenedFile file(test_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, hints);
  ASSERT_THAT(
      MPI_File_set_view(file, kPiece * world_rank(), MPI_BYTE, cyclic(kPiece, kPieces), "native", MPI_INFO_NULL),
      Succeeds());
  const Type gapped = vector_of(kPieces * kPiece / 8, 8, 24, MPI_BYTE);
  const std::size_t bytes = std::size_t{kPiece} * kPieces;
  Bytes memory(bytes * 3, 0xee);
  const Bytes data = mine(bytes);
  for (std::size_t k = 0; k < bytes; ++k) memory[k / 8 * 24 + k % 8] = data[k];
  ASSERT_THAT(MPI_File_write_at_all(file, 0, memory.data(), 1, gapped, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_THAT(hint_of(file, "weir_collective_last"), StartsWith("two-phase"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(contents(test_name()), expected_file(bytes));
  Bytes back(bytes * 3, 0xee);
  ASSERT_THAT(MPI_File_read_at_all(file, 0, back.data(), 1, gapped, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_EQ(back, memory);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(TogetherTest, SplitAccessesComeTogetherToo) {
  const Hints hints{{"weir_collective", "two-phase"}, {"cb_buffer_size", "5000"}};
  OpenedFile file(test_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, hints);
  ASSERT_THAT(
      MPI_File_set_view(file, kPiece * world_rank(), MPI_BYTE, cyclic(kPiece, kPieces), "native", MPI_INFO_NULL),
      Succeeds());
  const std::size_t bytes = std::size_t{kPiece} * kPieces;
  const Bytes data = mine(bytes);
  ASSERT_THAT(MPI_File_write_all_begin(file, data.data(), static_cast<int>(bytes), MPI_BYTE), Succeeds());
  MPI_Status status;
  ASSERT_THAT(MPI_File_write_all_end(file, data.data(), &status), Succeeds());
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  EXPECT_EQ(count, static_cast<int>(bytes));
  EXPECT_THAT(hint_of(file, "weir_collective_last"), StartsWith("two-phase"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(contents(test_name()), expected_file(bytes));
  Bytes back(bytes);
  ASSERT_THAT(MPI_File_read_at_all_begin(file, 0, back.data(), static_cast<int>(bytes), MPI_BYTE), Succeeds());
  ASSERT_THAT(MPI_File_read_at_all_end(file, back.data(), &status), Succeeds());
  EXPECT_EQ(back, data);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(TogetherTest, ReadsEndWithTheFileAndRanksMayHaveNothing) {
  const Hints hints{{"weir_collective", "two-phase"}, {"cb_buffer_size", "1000"}};
  OpenedFile file(test_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, hints);
  const Bytes whole = mine(10000, 0);
  if (world_rank() == 0) {
    ASSERT_THAT(MPI_File_write_at(file, 0, whole.data(), 10000, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
  }
  ASSERT_THAT(MPI_File_sync(file), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);
  // The last rank reads beyond the end; the first reads nothing; others overlap.
  const int rank = world_rank();
  const int wanted = rank == 0 ? 0 : 3000;
  const MPI_Offset from = rank == world_size() - 1 ? 9000 : 500;
  Bytes back(3000, 0xee);
  MPI_Status status;
  ASSERT_THAT(MPI_File_read_at_all(file, from, back.data(), wanted, MPI_BYTE, &status), Succeeds());
  EXPECT_THAT(hint_of(file, "weir_collective_last"), StartsWith("two-phase"));
  int count = -1;
  MPI_Get_count(&status, MPI_BYTE, &count);
  const int expected = rank == 0 ? 0 : rank == world_size() - 1 ? 1000 : 3000;
  ASSERT_EQ(count, expected);
  for (int k = 0; k < 3000; ++k) {
    ASSERT_EQ(back[static_cast<std::size_t>(k)], k < expected ? whole[static_cast<std::size_t>(from + k)] : 0xee) << k;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(TogetherTest, GapsStayAsTheyWere) {
  const Hints hints{{"weir_collective", "two-phase"}};
  OpenedFile file(test_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, hints);
  const int ranks = world_size();
  const Bytes before(static_cast<std::size_t>(400 * (ranks + 1)), 0x55);
  if (world_rank() == 0) {
    ASSERT_THAT(MPI_File_write_at(file, 0, before.data(), static_cast<int>(before.size()), MPI_BYTE, MPI_STATUS_IGNORE),
                Succeeds());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // Pieces of 4 for each rank, and 4 for nobody.
  const Type type = resized(vector_of(1, 4, 4, MPI_BYTE), 0, 4 * (ranks + 1));
  ASSERT_THAT(MPI_File_set_view(file, 4 * world_rank(), MPI_BYTE, type, "native", MPI_INFO_NULL), Succeeds());
  const Bytes data = mine(400);
  ASSERT_THAT(MPI_File_write_all(file, data.data(), 400, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_THAT(hint_of(file, "weir_collective_last"), HasSubstr("gaps"));
  MPI_Barrier(MPI_COMM_WORLD);
  const Bytes after = contents(test_name());
  for (std::size_t x = 0; x < before.size(); ++x) {
    const std::size_t owner = x / 4 % static_cast<std::size_t>(ranks + 1);
    const std::size_t k = x / 4 / static_cast<std::size_t>(ranks + 1) * 4 + x % 4;
    ASSERT_EQ(after[x], owner == static_cast<std::size_t>(ranks) ? 0x55 : byte_of(static_cast<int>(owner), k)) << x;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(TogetherTest, WholeViewsThatDoNotMeetAreWrittenTogether) {
  const Hints hints{{"weir_collective", "two-phase"}, {"cb_buffer_size", "999"}};
  OpenedFile file(test_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, hints);
  const Bytes data = mine(5000);
  ASSERT_THAT(MPI_File_write_ordered(file, data.data(), 5000, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_THAT(hint_of(file, "weir_collective_last"), StartsWith("two-phase"));
  MPI_Barrier(MPI_COMM_WORLD);
  Bytes expected;
  for (int rank = 0; rank < world_size(); ++rank) {
    const Bytes part = mine(5000, rank);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(contents(test_name()), expected);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(TogetherTest, ARankWithAnErrorDoesNotKeepOthersFromTheirs) {
  const Hints hints{{"weir_collective", "two-phase"}};
  OpenedFile file(test_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, hints);
  const Bytes data = mine(100);
  const bool is_wrong = world_rank() == world_size() - 1;
  const int code =
      MPI_File_write_at_all(file, 100 * world_rank(), data.data(), is_wrong ? -1 : 100, MPI_BYTE, MPI_STATUS_IGNORE);
  if (is_wrong) {
    EXPECT_THAT(code, FailsWith(MPI_ERR_COUNT));
  } else {
    EXPECT_THAT(code, Succeeds());
  }
  // And the next one is as if nothing had been.
  ASSERT_THAT(MPI_File_write_at_all(file, 100 * world_rank(), data.data(), 100, MPI_BYTE, MPI_STATUS_IGNORE),
              Succeeds());
  EXPECT_THAT(hint_of(file, "weir_collective_last"), StartsWith("two-phase"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(contents(test_name()).size(), static_cast<std::size_t>(100 * world_size()));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(TogetherTest, ViewsMayChange) {
  const Hints hints{{"weir_collective", "two-phase"}};
  OpenedFile file(test_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, hints);
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    const int piece = static_cast<int>(1 + random() % 60);
    const int pieces = static_cast<int>(1 + random() % 300);
    const MPI_Offset disp = static_cast<MPI_Offset>(random() % 1000);
    ASSERT_THAT(MPI_File_set_view(file, disp + MPI_Offset{piece} * world_rank(), MPI_BYTE, cyclic(piece, pieces),
                                  "native", MPI_INFO_NULL),
                Succeeds());
    const Bytes data = mine(static_cast<std::size_t>(piece * pieces), world_rank() + round);
    ASSERT_THAT(MPI_File_write_all(file, data.data(), piece * pieces, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
    EXPECT_THAT(hint_of(file, "weir_collective_last"), StartsWith("two-phase"));
    MPI_Barrier(MPI_COMM_WORLD);
    Bytes back(data.size());
    ASSERT_THAT(MPI_File_read_at(file, 0, back.data(), piece * pieces, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
    ASSERT_EQ(back, data) << "alone, round " << round;
    std::fill(back.begin(), back.end(), 0);
    ASSERT_THAT(MPI_File_read_at_all(file, 0, back.data(), piece * pieces, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
    ASSERT_EQ(back, data) << "together, round " << round;
  }
}

}  // namespace
}  // namespace weir::mpiio::internal
