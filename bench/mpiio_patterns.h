#pragma once

// What the ranks of mpiio_bench access: patterns of array programs, as MPI datatypes and as lists of pieces.

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <mpi.h>

namespace weir::mpiio_bench {

using Offset = long long;

struct Settings {
  Offset bytes_per_rank = Offset{16} << 20;
  int repeats = 5;
  std::string cases;       // those whose name contains this
  std::string operations;  // only this one
  std::string tmpfs = "/dev/shm";
  std::string disk;              // empty: left out
  std::string store = "memory";  // what `weir run` was told, to be reported
  int servers = 1;               // likewise
  bool tables = false;
  Offset file_bytes = Offset{64} << 20;  // the largest of the tables
  std::string svg;                       // of the tables
  double limit_seconds = 2;              // a contender slower than this gets no more turns
  int rest_ms = 200;                     // after each write of a new file through weir
  int busy = 0;                          // processes that compute meanwhile
  std::string wire;                      // HOST:PORT of serve_wire(): the only rival then
  bool json = false;
};

int world_rank();
int world_size();

/// Files outside Weir, which nobody else would remove.
std::set<std::string>& local_files();
void remove_local_files();

/// A benchmark that cannot do what it claims to measure must not print numbers.
[[noreturn]] void give_up(const std::string& what);
void require(bool condition, const std::string& what);
void require_mpi(int code, const std::string& what);

/// What is at byte x of every file.
std::byte content(Offset x);

struct Piece {
  Offset file = 0;
  Offset memory = 0;
  Offset length = 0;
};

// One rank's part of a shared file, said twice: as the datatypes that a program would use, and as the list of its
// pieces.
struct Pattern {
  std::string name;
  Offset file_bytes = 0;
  Offset disp = 0;
  MPI_Datatype etype = MPI_BYTE;
  MPI_Datatype filetype = MPI_BYTE;
  MPI_Datatype memory_type = MPI_BYTE;
  int memory_count = 0;
  Offset memory_span = 0;
  bool read_only = false;  // ranks overlap
  std::function<std::vector<Piece>(int rank)> pieces;
  std::vector<Piece> mine;  // pieces(this rank)

  [[nodiscard]] Offset bytes() const {
    Offset sum = 0;
    for (const Piece& piece : mine) sum += piece.length;
    return sum;
  }
};

MPI_Datatype subarray(const std::vector<int>& shape, const std::vector<int>& part, const std::vector<int>& at,
                      MPI_Datatype element);

/// Each rank a share of the file, one after the other.
Pattern contiguous(Offset file_bytes);
Pattern blocks(const Settings& settings);
Pattern columns_of_blocks(const Settings& settings);
/// Squares of k x k elements, dealt in turn.
Pattern cyclic(const Settings& settings, int k);
/// Blocks of an n-D array dealt over the first three dimensions as evenly as the number of ranks allows, the third
/// first: the parts of two ranks are not just one half of the file each.
Pattern subcubes(const std::string& name, std::vector<int> shape, MPI_Datatype element, Offset element_bytes);
/// Of the largest cube of such elements that all ranks have room for, a multiple of 16.
int cube_edge(const Settings& settings, Offset element_bytes);
/// 175,000 pieces of 4 bytes per rank, at irregular places.
Pattern scattered();
/// Tiles of a large picture that overlap by 32 elements: read only.
Pattern overlapping_tiles(const Settings& settings);
/// The file side contiguous, 48 bytes of every 64 in memory.
Pattern memory_gaps(const Settings& settings);
/// Checkpoint of many variables: each is the ranks' parts one after the other, 256 KiB each.
Pattern checkpoint(const Settings& settings);

}  // namespace weir::mpiio_bench
