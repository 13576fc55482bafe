// Random datatypes, in the file and in memory: what arrives in a file of ours, in one of the MPI's own after the same
// calls, and in a list of bytes that loops have filled.  Ours must be as the list says.  So must the MPI's be, almost
// always: no MPI-IO is without mistakes here, and one that is found is counted, not copied.

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include <weir/mpiio/internal/testing.h>
#include <weir/mpiio/internal/type_samples.h>

namespace weir::mpiio::internal {
namespace {

using samples::Random;
using samples::Sample;

constexpr int kRounds = 60;
constexpr int kAccesses = 3;  // of a rank in each round; later ones may overwrite earlier ones
constexpr std::size_t kMostBytes = 4000;

// ---------------------------------------------------------------- what a rank does in a round

bool is_legal_in_files(const samples::Listed& list) { return samples::ascends(list.bytes) && list.bytes.front() >= 0; }

Sample random_type(Random& random, bool in_file, samples::Leaves leaves) {
  for (;;) {
    Sample sample = samples::Generator(random, in_file, leaves).make(static_cast<int>(random.between(0, 4)));
    const samples::Listed& list = sample.native();
    if (!sample.is_packable() || list.extent() <= 0 || list.bytes.size() > kMostBytes / 4) continue;
    if (!in_file || is_legal_in_files(list)) return sample;
  }
}

// One past the last byte of an item, or its extent if that is more.
Offset span_of(const Sample& sample) {
  return std::max(sample.native().upper,
                  *std::max_element(sample.native().bytes.begin(), sample.native().bytes.end()) + 1);
}

struct RandomAccess {
  int function;
  Offset offset;  // in etypes
  int count;
};

/// All that a rank does follows from the seed, so that every rank knows it of every other.
struct Plan {
  Plan(std::uint64_t seed, int rank, samples::Leaves leaves)
      : common(seed * 64),
        random(seed * 64 + 1 + static_cast<std::uint64_t>(rank)),
        has_derived_etype(common.chance(30)),
        item(random_type(has_derived_etype ? common : random, true, leaves)),
        memory(random_type(random, false, leaves)) {
    const auto etype = static_cast<Offset>(has_derived_etype ? item.native().bytes.size() : 1);
    const auto piece = static_cast<Offset>(memory.native().bytes.size());
    // Accesses are whole etypes and whole items of memory.
    const Offset least = std::lcm(etype, piece) / piece;
    const Offset most = std::clamp<Offset>(static_cast<Offset>(kMostBytes) / (least * piece), 1, 4);
    for (int i = 0; i < kAccesses; ++i) {
      accesses.push_back({static_cast<int>(common.between(0, 7)), random.between(0, has_derived_etype ? 3 : 100),
                          static_cast<int>(least * random.between(1, most))});
    }
  }

  Random common;  // for what must be the same on all ranks: functions, and bytes of the etype
  Random random;
  bool has_derived_etype;  // it is the item
  Sample item;
  Sample memory;
  std::vector<RandomAccess> accesses;
};

/// The filetype: items of all ranks beside each other, in slots of the same length.
Sample filetype_of(const Plan& plan, int rank, int ranks, Offset slot) {
  return samples::resized(samples::hindexed(plan.item, {1}, {static_cast<MPI_Aint>(rank * slot)}), 0, ranks * slot);
}

// Where byte k of the view is.
std::size_t place(const Sample& filetype, Offset disp, std::size_t k) {
  const auto& bytes = filetype.native().bytes;
  return static_cast<std::size_t>(disp + bytes[k % bytes.size()] +
                                  static_cast<Offset>(k / bytes.size()) * filetype.native().extent());
}

/// Memory of a program for so many items, which may reach below the address that it passes.
class Room {
 public:
  Room(const Sample& type, int count) : places_(samples::items(type.native(), count)) {
    const auto [low, high] = std::minmax_element(places_.begin(), places_.end());
    low_ = *low;
    bytes_.resize(static_cast<std::size_t>(*high - low_ + 1));
  }
  unsigned char& at(std::size_t k) { return bytes_[static_cast<std::size_t>(places_[k] - low_)]; }
  [[nodiscard]] std::size_t size() const { return places_.size(); }
  [[nodiscard]] bool repeats() const { return samples::repeats(places_); }
  void* address() { return bytes_.data() - low_; }
  Bytes& bytes() { return bytes_; }

 private:
  samples::ByteOffsets places_;
  Offset low_;
  Bytes bytes_;
};

// ---------------------------------------------------------------- the functions

int waited(int code, MPI_Request& request) {
  return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int write(int function, MPI_File file, Offset offset, void* data, int count, MPI_Datatype type) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (const int code = function < 4 ? MPI_SUCCESS : MPI_File_seek(file, offset, MPI_SEEK_SET); code != MPI_SUCCESS) {
    return code;
  }
  switch (function) {
    case 0: return MPI_File_write_at(file, offset, data, count, type, MPI_STATUS_IGNORE);
    case 1: return MPI_File_write_at_all(file, offset, data, count, type, MPI_STATUS_IGNORE);
    case 2: return waited(MPI_File_iwrite_at(file, offset, data, count, type, &request), request);
    case 3: return waited(MPI_File_iwrite_at_all(file, offset, data, count, type, &request), request);
    case 4: return MPI_File_write(file, data, count, type, MPI_STATUS_IGNORE);
    case 5: return MPI_File_write_all(file, data, count, type, MPI_STATUS_IGNORE);
    case 6: return waited(MPI_File_iwrite(file, data, count, type, &request), request);
    default: {
      const int code = MPI_File_write_all_begin(file, data, count, type);
      return code != MPI_SUCCESS ? code : MPI_File_write_all_end(file, data, MPI_STATUS_IGNORE);
    }
  }
}

int read(int function, MPI_File file, Offset offset, void* data, int count, MPI_Datatype type) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (const int code = function < 4 ? MPI_SUCCESS : MPI_File_seek(file, offset, MPI_SEEK_SET); code != MPI_SUCCESS) {
    return code;
  }
  switch (function) {
    case 0: return MPI_File_read_at(file, offset, data, count, type, MPI_STATUS_IGNORE);
    case 1: return MPI_File_read_at_all(file, offset, data, count, type, MPI_STATUS_IGNORE);
    case 2: return waited(MPI_File_iread_at(file, offset, data, count, type, &request), request);
    case 3: return waited(MPI_File_iread_at_all(file, offset, data, count, type, &request), request);
    case 4: return MPI_File_read(file, data, count, type, MPI_STATUS_IGNORE);
    case 5: return MPI_File_read_all(file, data, count, type, MPI_STATUS_IGNORE);
    case 6: return waited(MPI_File_iread(file, data, count, type, &request), request);
    default: {
      const int code = MPI_File_read_all_begin(file, data, count, type);
      return code != MPI_SUCCESS ? code : MPI_File_read_all_end(file, data, MPI_STATUS_IGNORE);
    }
  }
}

// ---------------------------------------------------------------- a round

class Round {
 public:
  Round(std::uint64_t seed, samples::Leaves leaves) {
    Offset slot = 0;
    for (int rank = 0; rank < world_size(); ++rank) {
      plans_.emplace_back(seed, rank, leaves);
      slot = std::max(slot, span_of(plans_.back().item));
    }
    for (int rank = 0; rank < world_size(); ++rank) {
      filetypes_.push_back(filetype_of(plans_[static_cast<std::size_t>(rank)], rank, world_size(), slot));
    }
    disp_ = static_cast<Offset>(seed % 50);
    fill_expected();
  }

  [[nodiscard]] const Bytes& expected() const { return expected_; }
  [[nodiscard]] std::string text() const {
    return concat("file: ", mine().item.text(), mine().has_derived_etype ? ", which is the etype" : "",
                  "; memory: ", mine().memory.text());
  }

  [[nodiscard]] int set_view(MPI_File file) const {
    MPI_Datatype filetype = filetypes_[rank()].type();
    MPI_Datatype etype = mine().has_derived_etype ? mine().item.type() : MPI_BYTE;
    MPI_Type_commit(&filetype);
    if (mine().has_derived_etype) MPI_Type_commit(&etype);
    return MPI_File_set_view(file, disp_, etype, filetype, "native", MPI_INFO_NULL);
  }

  /// \returns the first error
  [[nodiscard]] int write_all(MPI_File file) const {
    MPI_Datatype type = mine().memory.type();
    MPI_Type_commit(&type);
    int first = MPI_SUCCESS;
    for (std::size_t i = 0; i < kAccesses; ++i) {
      const RandomAccess& access = mine().accesses[i];
      Room room = room_of(world_rank(), i);
      const int code = write(access.function, file, access.offset, room.address(), access.count, type);
      if (first == MPI_SUCCESS) first = code;
    }
    return first;
  }

  /// The same in the simplest way.
  [[nodiscard]] int write_simply(MPI_File file) const {
    for (std::size_t i = 0; i < kAccesses; ++i) {
      const RandomAccess& access = mine().accesses[i];
      Room room = room_of(world_rank(), i);
      Bytes packed(room.size());
      for (std::size_t k = 0; k < room.size(); ++k) packed[k] = room.at(k);
      const int code = MPI_File_write_at(file, access.offset, packed.data(), static_cast<int>(packed.size()), MPI_BYTE,
                                         MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS) return code;
    }
    return MPI_SUCCESS;
  }

  void read_all(MPI_File file) const {
    const MPI_Datatype type = mine().memory.type();
    for (std::size_t i = 0; i < kAccesses; ++i) {
      const RandomAccess& access = mine().accesses[i];
      Room room = room_of(world_rank(), i);
      // To read into the same memory twice is an error of the program, and so are types for that: then bytes in one.
      const bool is_packed = room.repeats();
      Bytes packed(room.size());
      std::fill(room.bytes().begin(), room.bytes().end(), 0);
      ASSERT_THAT(read(access.function, file, access.offset, is_packed ? packed.data() : room.address(),
                       is_packed ? static_cast<int>(packed.size()) : access.count, is_packed ? MPI_BYTE : type),
                  Succeeds());
      for (std::size_t k = 0; k < room.size(); ++k) {
        ASSERT_EQ(is_packed ? packed[k] : room.at(k), expected_[place_of(world_rank(), access, k)])
            << "access " << i << ", byte " << k;
      }
    }
  }

 private:
  [[nodiscard]] static std::size_t rank() { return static_cast<std::size_t>(world_rank()); }
  [[nodiscard]] const Plan& mine() const { return plans_[rank()]; }

  [[nodiscard]] std::size_t place_of(int rank, const RandomAccess& access, std::size_t k) const {
    const auto r = static_cast<std::size_t>(rank);
    const std::size_t etype = plans_[r].has_derived_etype ? plans_[r].item.native().bytes.size() : 1;
    return place(filetypes_[r], disp_, static_cast<std::size_t>(access.offset) * etype + k);
  }

  // The memory that a rank writes.
  [[nodiscard]] Room room_of(int rank, std::size_t access) const {
    const Plan& plan = plans_[static_cast<std::size_t>(rank)];
    Room room(plan.memory, plan.accesses[access].count);
    for (std::size_t i = 0; i < room.bytes().size(); ++i) room.bytes()[i] = byte_of(rank, i + 97 * access);
    return room;
  }

  void fill_expected() {
    for (int rank = 0; rank < world_size(); ++rank) {
      for (std::size_t i = 0; i < kAccesses; ++i) {
        Room room = room_of(rank, i);
        for (std::size_t k = 0; k < room.size(); ++k) {
          const std::size_t at = place_of(rank, plans_[static_cast<std::size_t>(rank)].accesses[i], k);
          if (at >= expected_.size()) expected_.resize(at + 1);
          expected_[at] = room.at(k);
        }
      }
    }
  }

  std::vector<Plan> plans_;        // by rank
  std::vector<Sample> filetypes_;  // by rank
  Offset disp_ = 0;
  Bytes expected_;
};

// Ranks go on together, or some would wait for one that has stopped.
bool is_true_anywhere(bool here) {
  const int mine = here ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return all != 0;
}

/// What the MPI itself makes of it; nothing, if it refuses.  One rank after the other, and in the simplest way, so that
/// only filetypes are put to the test: with others of their functions, and with some types of memory, MPICH 4.0 and
/// Open MPI 4.1 write other bytes, or MPICH does not come to an end.
Bytes written_by_mpi(const Round& round, const std::string& path) {
  bool is_refused = false;
  for (int turn = 0; turn < world_size(); ++turn) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (turn != world_rank()) continue;
    OpenedFile file(path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_SELF);
    // ROMIO leaves rubbish in holes of a file that grows.
    EXPECT_THAT(MPI_File_set_size(file, static_cast<MPI_Offset>(round.expected().size())), Succeeds());
    is_refused = round.set_view(file) != MPI_SUCCESS || round.write_simply(file) != MPI_SUCCESS;
  }
  is_refused = is_true_anywhere(is_refused);
  std::ifstream stream(path, std::ios::binary);
  Bytes bytes{std::istreambuf_iterator<char>(stream), {}};
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == 0) std::filesystem::remove(path);
  return is_refused ? Bytes() : bytes;
}

std::string local_path() {
  int number = static_cast<int>(::getpid());
  MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return (std::filesystem::temp_directory_path() / ("weir-mpiio-random-" + std::to_string(number))).string();
}

TEST(RandomAccessTest, WritesWhatListsOfBytesSayAndTheMpiWrites) {
  const std::string path = local_path();
  int different = 0;
  std::string first_difference;
  for (int i = 0; i < kRounds && !is_true_anywhere(HasFailure()); ++i) {
    const std::uint64_t seed = layout::oracle::base_seed() * 1000003 + static_cast<std::uint64_t>(i);
    const bool has_pairs = i % 2 != 0;  // ROMIO ends the program when it sees one
    const Round round(seed, has_pairs ? samples::Leaves::kAll : samples::Leaves::kNoPairs);
    SCOPED_TRACE(concat("round ", i, " of WEIR_TEST_SEED=", layout::oracle::base_seed(), "; ", round.text()));
    const std::string name = test_name(std::to_string(i));
    {
      OpenedFile file(name);
      ASSERT_THAT(round.set_view(file), Succeeds());
      EXPECT_THAT(round.write_all(file), Succeeds());
      EXPECT_THAT(MPI_File_sync(file), Succeeds());
      MPI_Barrier(MPI_COMM_WORLD);
      EXPECT_EQ(contents(name), round.expected());
      round.read_all(file);
    }
    if (has_pairs || written_by_mpi(round, path) == round.expected()) continue;
    if (different++ == 0) first_difference = concat("round ", i, ": ", round.text());
  }
  EXPECT_LE(different, kRounds / 5) << "rounds in which the MPI's own file is another, the first being "
                                    << first_difference;
}

}  // namespace
}  // namespace weir::mpiio::internal
