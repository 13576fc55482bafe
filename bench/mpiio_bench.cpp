// MPI-IO through Weir against the MPI's own, in one run of one ordinary MPI program:
//
//   weir run -- mpirun -n 2 mpiio_bench_openmpi [--tables] [--mb 16] [--repeats 5] [--case cyclic] [--only write] [--disk DIR] [--json]
//
// The program knows nothing of Weir but the name weir:/..., which the preloaded library takes for its own, and the hint weir_layout.
//
//   weir      the file weir:/..., in the store that `weir run` was told
//   tmpfs     the MPI's own MPI-IO on a file in memory; "best" is the fastest of the hint sets below in this row, and its name is shown
//   disk      the same on a file of the disk, through the page cache
//   manual    what an expert would write by hand: who owns which part of the file is worked out beforehand, then pack, MPI_Alltoallv,
//             unpack, one pwrite (pread) of a contiguous part per rank on tmpfs (`manual disk`: on the disk); with collective calls only
//   memcpy    all ranks copy as many bytes from one warm buffer to another: the bound
//
// write goes to a file just created, rewrite to one that is full, read comes from it; nobody syncs.  durable is write and MPI_File_sync
// (fsync by hand), for all contenders; cold is read after all files on the disk were taken out of the page cache.  Contenders take turns; the time of one turn is that of the slowest rank, of the data call alone.
// A ratio is rival / weir of the same turn: above 1, weir is faster.  Shown are the median and, in brackets, the quartiles.  Every file is
// compared with what must be in it before anything is timed.  If a disk takes part, it is given time to settle (sync) before each turn.
//
// --tables compares how a file is stored, by its size: each rank a contiguous part, and blocks of a 3-D array of ints.
//
//   view      weir:/..., stored as the ranks see it (weir_layout=view): each rank's part is one subfile
//   block     weir:/..., in stripes over the servers
//
// Ratios are to view.  The MPI's own MPI-IO gets the contiguous parts as bytes from a displacement on, which suits it best.
//
// Servers fault memory in ahead of use, up to 160 MiB each.  They do that between the turns: all ranks rest for a while (--rest MS) after
// each write of a new file through weir, so that it costs no rival time.  With --rest 0 nothing is made up for, as when a program writes
// more than that at once.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <weir/base/spread.h>

#include "fs_report.h"

namespace {

using weir::Spread;
using weir::spread_of;

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
  bool json = false;
};

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

// Files outside Weir, which nobody else would remove.
std::set<std::string>& local_files() {
  static std::set<std::string> files;
  return files;
}

void remove_local_files() {
  for (const std::string& file : local_files()) ::unlink(file.c_str());
  local_files().clear();
}

// A benchmark that cannot do what it claims to measure must not print numbers.
[[noreturn]] void give_up(const std::string& what) {
  remove_local_files();
  std::fprintf(stderr, "mpiio_bench: rank %d: %s\n", world_rank(), what.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void require(bool condition, const std::string& what) {
  if (!condition) give_up(what);
}

void require_mpi(int code, const std::string& what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  give_up(what + ": " + text);
}

// What is at byte x of every file.
std::byte content(Offset x) {
  const auto word = static_cast<unsigned long long>(x / 4) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::byte>(word >> (32 + 8 * (x % 4)));
}

// --- patterns -------------------------------------------------------------------------------------------------------------------

struct Piece {
  Offset file = 0;
  Offset memory = 0;
  Offset length = 0;
};

// One rank's part of a shared file, said twice: as the datatypes that a program would use, and as the list of its pieces.
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

// Pieces of `length` bytes: one per combination of the loops, outermost first.
struct Loop {
  Offset count = 1;
  Offset step = 0;
};

std::vector<Piece> nest(Offset start, const std::vector<Loop>& loops, Offset length) {
  std::vector<Piece> pieces{{start, 0, length}};
  for (const Loop& loop : loops) {
    std::vector<Piece> next;
    next.reserve(pieces.size() * static_cast<std::size_t>(loop.count));
    for (const Piece& piece : pieces) {
      for (Offset i = 0; i < loop.count; ++i) next.push_back({piece.file + i * loop.step, 0, length});
    }
    pieces = std::move(next);
  }
  std::vector<Piece> joined;
  Offset memory = 0;
  for (const Piece& piece : pieces) {
    if (!joined.empty() && joined.back().file + joined.back().length == piece.file) {
      joined.back().length += length;
    } else {
      joined.push_back({piece.file, memory, length});
    }
    memory += length;
  }
  return joined;
}

MPI_Datatype committed(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return type;
}

MPI_Datatype subarray(const std::vector<int>& shape, const std::vector<int>& part, const std::vector<int>& at,
                      MPI_Datatype element) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(static_cast<int>(shape.size()), shape.data(), part.data(), at.data(), MPI_ORDER_C, element,
                           &type);
  return committed(type);
}

MPI_Datatype darray(const std::vector<int>& shape, const std::vector<int>& kind, const std::vector<int>& block,
                    const std::vector<int>& grid, MPI_Datatype element) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_darray(world_size(), world_rank(), static_cast<int>(shape.size()), shape.data(), kind.data(),
                         block.data(), grid.data(), MPI_ORDER_C, element, &type);
  return committed(type);
}

// Dense memory, as most programs have it.
Pattern dense(std::string name, Offset file_bytes, MPI_Datatype etype, MPI_Datatype filetype,
              std::function<std::vector<Piece>(int)> pieces) {
  Pattern pattern;
  pattern.name = std::move(name);
  pattern.file_bytes = file_bytes;
  pattern.etype = etype;
  pattern.filetype = filetype;
  pattern.memory_type = etype;
  pattern.mine = pieces(world_rank());
  pattern.pieces = std::move(pieces);
  int element = 0;
  MPI_Type_size(etype, &element);
  pattern.memory_span = pattern.bytes();
  pattern.memory_count = static_cast<int>(pattern.memory_span / element);
  return pattern;
}

// The grid with P = rows * columns that is nearest to a square.
std::pair<int, int> grid_of(int ranks) {
  int rows = 1;
  for (int i = 1; i * i <= ranks; ++i) rows = ranks % i == 0 ? i : rows;
  return {rows, ranks / rows};
}

// A square matrix of doubles whose edge is a multiple of 64 times all rank counts in use.
int edge_of(const Settings& settings) {
  const int step = 64 * world_size();
  const double elements = static_cast<double>(settings.bytes_per_rank) * world_size() / 8;
  int edge = step;
  while (static_cast<double>(edge + step) * (edge + step) <= elements) edge += step;
  return edge;
}

// Each rank a share of the file, one after the other.
Pattern contiguous(Offset file_bytes) {
  const Offset share = (file_bytes + world_size() - 1) / world_size();
  const auto pieces = [file_bytes, share](int rank) {
    const Offset first = std::min(file_bytes, share * rank);
    return std::vector<Piece>{{first, 0, std::min(file_bytes, first + share) - first}};
  };
  Pattern pattern = dense("contiguous", file_bytes, MPI_BYTE, MPI_BYTE, pieces);
  pattern.disp = pattern.mine.front().file;
  return pattern;
}

Pattern blocks(const Settings& settings) {
  const int edge = edge_of(settings);
  const int rows = grid_of(world_size()).first;
  const int columns = grid_of(world_size()).second;
  const int height = edge / rows;
  const int width = edge / columns;
  return dense("(BLOCK,BLOCK)", Offset{8} * edge * edge, MPI_DOUBLE,
               darray({edge, edge}, {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK},
                      {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, {rows, columns}, MPI_DOUBLE),
               [=](int rank) {
                 const Offset start =
                     Offset{8} * ((rank / columns) * Offset{height} * edge + (rank % columns) * Offset{width});
                 return nest(start, {{height, Offset{8} * edge}}, Offset{8} * width);
               });
}

Pattern columns_of_blocks(const Settings& settings) {
  const int edge = edge_of(settings);
  const int width = edge / world_size();
  return dense("(*,BLOCK)", Offset{8} * edge * edge, MPI_DOUBLE,
               subarray({edge, edge}, {edge, width}, {0, width * world_rank()}, MPI_DOUBLE), [=](int rank) {
                 return nest(Offset{8} * width * rank, {{edge, Offset{8} * edge}}, Offset{8} * width);
               });
}

Pattern cyclic(const Settings& settings, int k) {
  const int edge = edge_of(settings);
  const int rows = grid_of(world_size()).first;
  const int columns = grid_of(world_size()).second;
  const std::string name = "(CYCLIC(" + std::to_string(k) + "),CYCLIC(" + std::to_string(k) + "))";
  return dense(
      name, Offset{8} * edge * edge, MPI_DOUBLE,
      darray({edge, edge}, {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC}, {k, k}, {rows, columns}, MPI_DOUBLE),
      [=](int rank) {
        const Offset row = Offset{8} * edge;
        const Offset start = (rank / columns) * Offset{k} * row + (rank % columns) * Offset{8} * k;
        return nest(start, {{edge / k / rows, row * k * rows}, {k, row}, {edge / k / columns, Offset{8} * k * columns}},
                    Offset{8} * k);
      });
}

// Blocks of an n-D array dealt over the first three dimensions as evenly as the number of ranks allows, the third first: the parts of two
// ranks are not just one half of the file each.
Pattern subcubes(const std::string& name, std::vector<int> shape, MPI_Datatype element, Offset element_bytes) {
  std::vector<int> grid(shape.size(), 1);
  int left = world_size();
  const std::size_t dealt = std::min<std::size_t>(3, shape.size());
  for (std::size_t i = dealt - 1; left > 1; i = (i + dealt - 1) % dealt) {
    int factor = 2;
    while (left % factor != 0) ++factor;
    grid[i] *= factor;
    left /= factor;
  }
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = shape[i] / grid[i] * grid[i];
  const auto at = [grid](int rank) {
    std::vector<int> place(grid.size());
    for (std::size_t i = grid.size(); i-- > 0;) {
      place[i] = rank % grid[i];
      rank /= grid[i];
    }
    return place;
  };
  std::vector<int> part(shape.size());
  std::vector<int> start(shape.size());
  Offset total = element_bytes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    part[i] = shape[i] / grid[i];
    start[i] = at(world_rank())[i] * part[i];
    total *= shape[i];
  }
  return dense(name, total, element, subarray(shape, part, start, element), [=](int rank) {
    std::vector<Loop> loops;
    Offset first = 0;
    Offset step = total;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      step /= shape[i];
      first += Offset{at(rank)[i]} * part[i] * step;
      if (i + 1 < shape.size()) loops.push_back({part[i], step});
    }
    return nest(first, loops, part.back() * element_bytes);
  });
}

int cube_edge(const Settings& settings, Offset element_bytes) {
  int edge = 16;
  const double limit = static_cast<double>(settings.bytes_per_rank) * world_size();
  while (static_cast<double>(edge + 16) * (edge + 16) * (edge + 16) * static_cast<double>(element_bytes) <= limit)
    edge += 16;
  return edge;
}

// 175,000 pieces of 4 bytes per rank, at irregular places.
Pattern scattered() {
  constexpr int kPieces = 175000;
  const int ranks = world_size();
  const auto pieces = [ranks](int rank) {
    std::vector<Piece> list;
    list.reserve(kPieces);
    for (Offset i = 0; i < kPieces; ++i) {
      // Slots of 4 bytes, dealt to the ranks in an order that changes from group to group.
      const Offset turn = (i * 2654435761LL >> 7) % ranks;
      list.push_back({(i * ranks * 2 + (rank + turn) % ranks * 2 + (i * 40503LL >> 5) % 2) * 4, i * 4, 4});
    }
    return list;
  };
  std::vector<MPI_Aint> places;
  for (const Piece& piece : pieces(world_rank())) places.push_back(static_cast<MPI_Aint>(piece.file));
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed_block(kPieces, 1, places.data(), MPI_INT, &type);
  return dense("175,000 x 4 B", Offset{kPieces} * ranks * 8, MPI_INT, committed(type), pieces);
}

// Tiles of a large picture that overlap by 32 elements: read only.
Pattern overlapping_tiles(const Settings& settings) {
  const int edge = edge_of(settings);
  const int rows = grid_of(world_size()).first;
  const int columns = grid_of(world_size()).second;
  constexpr int kOverlap = 32;
  const auto range = [edge](int index, int parts) {
    const int from = std::max(0, edge / parts * index - (index > 0 ? kOverlap : 0));
    const int to = std::min(edge, edge / parts * (index + 1) + kOverlap);
    return std::pair<int, int>(from, to);
  };
  const auto rows_here = range(world_rank() / columns, rows);
  const auto columns_here = range(world_rank() % columns, columns);
  Pattern pattern =
      dense("tiles, overlap", Offset{8} * edge * edge, MPI_DOUBLE,
            subarray({edge, edge}, {rows_here.second - rows_here.first, columns_here.second - columns_here.first},
                     {rows_here.first, columns_here.first}, MPI_DOUBLE),
            [=](int rank) {
              const auto y = range(rank / columns, rows);
              const auto x = range(rank % columns, columns);
              return nest(Offset{8} * (Offset{y.first} * edge + x.first), {{y.second - y.first, Offset{8} * edge}},
                          Offset{8} * (x.second - x.first));
            });
  pattern.read_only = true;
  return pattern;
}

// The file side contiguous, 48 bytes of every 64 in memory.
Pattern memory_gaps(const Settings& settings) {
  const Offset items = settings.bytes_per_rank / 48;
  const Offset bytes = items * 48;
  Pattern pattern = dense("memory, 16 B gaps", bytes * world_size(), MPI_BYTE, MPI_BYTE, [items, bytes](int rank) {
    std::vector<Piece> list;
    for (Offset i = 0; i < items; ++i) list.push_back({rank * bytes + i * 48, i * 64, 48});
    return list;
  });
  MPI_Datatype block = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(48, MPI_BYTE, &block);
  MPI_Type_create_resized(block, 0, 64, &pattern.memory_type);
  MPI_Type_free(&block);
  MPI_Type_commit(&pattern.memory_type);
  pattern.memory_count = static_cast<int>(items);
  pattern.memory_span = items * 64;
  pattern.disp = world_rank() * bytes;
  return pattern;
}

// Checkpoint of many variables: each is the ranks' parts one after the other, 256 KiB each.
Pattern checkpoint(const Settings& settings) {
  constexpr Offset kPart = 256 << 10;
  const Offset variables = std::max<Offset>(1, settings.bytes_per_rank / kPart);
  const Offset ranks = world_size();
  MPI_Datatype part = MPI_DATATYPE_NULL;
  MPI_Type_vector(static_cast<int>(variables), static_cast<int>(kPart), static_cast<int>(kPart * ranks), MPI_BYTE,
                  &part);
  MPI_Datatype placed = MPI_DATATYPE_NULL;
  const int one = 1;
  const MPI_Aint place = static_cast<MPI_Aint>(world_rank() * kPart);
  MPI_Type_create_hindexed(1, &one, &place, part, &placed);
  MPI_Type_free(&part);
  return dense("checkpoint N to 1", variables * kPart * ranks, MPI_BYTE, committed(placed), [=](int rank) {
    return nest(rank * kPart, {{variables, kPart * ranks}}, kPart);
  });
}

// --- contenders -----------------------------------------------------------------------------------------------------------------

enum class Operation { kWrite, kRewrite, kRead, kDurable, kCold };
constexpr std::pair<Operation, const char*> kOperations[] = {{Operation::kWrite, "write"},
                                                             {Operation::kRewrite, "rewrite"},
                                                             {Operation::kRead, "read"},
                                                             {Operation::kDurable, "durable"},
                                                             {Operation::kCold, "cold"}};

bool makes_file(Operation operation) { return operation == Operation::kWrite || operation == Operation::kDurable; }

bool only_reads(Operation operation) { return operation == Operation::kRead || operation == Operation::kCold; }

bool uses_disk(const Settings& settings) { return !settings.disk.empty() || settings.store != "memory"; }

bool is_asked(Operation operation, const char* name, const Settings& settings) {
  if (!settings.operations.empty()) return name == settings.operations;
  return (operation != Operation::kDurable && operation != Operation::kCold) || uses_disk(settings);
}

struct HintSet {
  std::string name;
  std::vector<std::pair<std::string, std::string>> hints;
};

// What the manuals of ROMIO and OMPIO recommend, for patterns like these.
const std::vector<HintSet>& hint_sets() {
  static const std::vector<HintSet> sets = {
      {"default", {}},
      {"no sieving", {{"romio_ds_write", "disable"}, {"romio_ds_read", "disable"}}},
      {"large sieve",
       {{"romio_ds_write", "enable"}, {"ind_wr_buffer_size", "16777216"}, {"ind_rd_buffer_size", "16777216"}}},
      {"aggregate",
       {{"romio_cb_write", "enable"},
        {"romio_cb_read", "enable"},
        {"collective_buffering", "true"},
        {"cb_nodes", std::to_string(world_size())},
        {"cb_buffer_size", "67108864"}}},
      {"no aggregation",
       {{"romio_cb_write", "disable"}, {"romio_cb_read", "disable"}, {"collective_buffering", "false"}}},
  };
  return sets;
}

struct Job {
  const Pattern& pattern;
  bool collective = false;
  Operation operation = Operation::kWrite;
  std::vector<std::byte> memory;
};

double slowest(double mine) {
  double result = 0;
  MPI_Allreduce(&mine, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return result;
}

double seconds_of(const std::function<void()>& turn) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  turn();
  return slowest(MPI_Wtime() - start);
}

MPI_Info info_of(const HintSet& set) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  for (const auto& hint : set.hints) MPI_Info_set(info, hint.first.c_str(), hint.second.c_str());
  return info;
}

// A file of the MPI library, or of Weir: the calls are the same.
class MpiFile {
 public:
  MpiFile(const std::string& path, const HintSet& set, bool fresh) : path_(path) {
    if (fresh && world_rank() == 0) MPI_File_delete(path.c_str(), MPI_INFO_NULL);  // it need not exist
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Info info = info_of(set);
    require_mpi(MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file_),
                "open " + path);
    MPI_Info_free(&info);
  }
  ~MpiFile() { MPI_File_close(&file_); }
  MpiFile(const MpiFile&) = delete;
  MpiFile& operator=(const MpiFile&) = delete;

  void set_view(const Pattern& pattern) {
    char representation[] = "native";
    require_mpi(MPI_File_set_view(file_, pattern.disp, pattern.etype, pattern.filetype, representation, MPI_INFO_NULL),
                "set_view " + path_);
  }

  // A single piece, as the bytes from a displacement on.
  void set_plain_view(const Piece& piece) {
    char representation[] = "native";
    require_mpi(MPI_File_set_view(file_, piece.file, MPI_BYTE, MPI_BYTE, representation, MPI_INFO_NULL),
                "set_view " + path_);
  }

  // Of a file of Weir.  A layout too long for MPI_Info is none of stripes.
  [[nodiscard]] bool is_striped() const {
    MPI_Info info = MPI_INFO_NULL;
    require_mpi(MPI_File_get_info(file_, &info), "get_info " + path_);
    char layout[MPI_MAX_INFO_VAL + 1] = "";
    int is_there = 0;
    MPI_Info_get(info, "weir_layout", MPI_MAX_INFO_VAL, layout, &is_there);
    MPI_Info_free(&info);
    return is_there != 0 && std::string(layout).rfind("stripe", 0) == 0;
  }

  void run(Job& job) {
    MPI_Status status;
    const Pattern& pattern = job.pattern;
    void* memory = job.memory.data();
    int code = MPI_SUCCESS;
    if (only_reads(job.operation)) {
      code = job.collective ? MPI_File_read_at_all(file_, 0, memory, pattern.memory_count, pattern.memory_type, &status)
                            : MPI_File_read_at(file_, 0, memory, pattern.memory_count, pattern.memory_type, &status);
    } else {
      code = job.collective
                 ? MPI_File_write_at_all(file_, 0, memory, pattern.memory_count, pattern.memory_type, &status)
                 : MPI_File_write_at(file_, 0, memory, pattern.memory_count, pattern.memory_type, &status);
    }
    require_mpi(code, "access " + path_);
    if (job.operation == Operation::kDurable) require_mpi(MPI_File_sync(file_), "sync " + path_);
    int count = 0;
    MPI_Get_count(&status, pattern.memory_type, &count);
    require(count == pattern.memory_count,
            path_ + ": moved " + std::to_string(count) + " items of " + std::to_string(pattern.memory_count));
  }

 private:
  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
};

// By hand: see the top.
class Manual {
 public:
  Manual(const Pattern& pattern, std::string path) : path_(std::move(path)) {
    const int ranks = world_size();
    const Offset share = (pattern.file_bytes + ranks - 1) / ranks;
    first_ = std::min(pattern.file_bytes, share * world_rank());
    domain_.resize(static_cast<std::size_t>(std::min(pattern.file_bytes, first_ + share) - first_));
    const auto cut = [share](const Piece& piece, auto&& use) {
      for (Offset done = 0; done < piece.length;) {
        const Offset at = piece.file + done;
        const Offset length = std::min(piece.length - done, (at / share + 1) * share - at);
        use(static_cast<int>(at / share), Piece{at, piece.memory + done, length});
        done += length;
      }
    };
    mine_.resize(static_cast<std::size_t>(ranks));
    theirs_.resize(static_cast<std::size_t>(ranks));
    for (const Piece& piece : pattern.mine) {
      cut(piece, [this](int owner, const Piece& part) { mine_[static_cast<std::size_t>(owner)].push_back(part); });
    }
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Piece& piece : pattern.pieces(rank)) {
        cut(piece, [this, rank](int owner, const Piece& part) {
          if (owner == world_rank()) theirs_[static_cast<std::size_t>(rank)].push_back(part);
        });
      }
    }
    count(mine_, mine_counts_, mine_places_, out_);
    count(theirs_, their_counts_, their_places_, in_);
    covers_all_ = static_cast<Offset>(in_.size()) >= static_cast<Offset>(domain_.size());
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT, 0600);
    require(descriptor_ >= 0, "open " + path_);
  }
  ~Manual() { ::close(descriptor_); }
  Manual(const Manual&) = delete;
  Manual& operator=(const Manual&) = delete;

  void empty() const { require(::ftruncate(descriptor_, 0) == 0, "truncate " + path_); }

  void run(Job& job) {
    if (only_reads(job.operation)) {
      move(false);
      pack(theirs_, &Piece::file, domain_.data() - first_, in_);
      MPI_Alltoallv(in_.data(), their_counts_.data(), their_places_.data(), MPI_BYTE, out_.data(), mine_counts_.data(),
                    mine_places_.data(), MPI_BYTE, MPI_COMM_WORLD);
      unpack(mine_, &Piece::memory, out_, job.memory.data());
      return;
    }
    pack(mine_, &Piece::memory, job.memory.data(), out_);
    MPI_Alltoallv(out_.data(), mine_counts_.data(), mine_places_.data(), MPI_BYTE, in_.data(), their_counts_.data(),
                  their_places_.data(), MPI_BYTE, MPI_COMM_WORLD);
    if (!covers_all_) move(false);  // bytes between the pieces stay as they are
    unpack(theirs_, &Piece::file, in_, domain_.data() - first_);
    move(true);
    if (job.operation == Operation::kDurable) require(::fsync(descriptor_) == 0, "fsync " + path_);
  }

 private:
  using Lists = std::vector<std::vector<Piece>>;

  static void count(const Lists& lists, std::vector<int>& counts, std::vector<int>& places,
                    std::vector<std::byte>& buffer) {
    int at = 0;
    for (const auto& list : lists) {
      Offset bytes = 0;
      for (const Piece& piece : list) bytes += piece.length;
      counts.push_back(static_cast<int>(bytes));
      places.push_back(at);
      at += static_cast<int>(bytes);
    }
    buffer.resize(static_cast<std::size_t>(at));
  }

  // `data` is where the offset 0 of the pieces would be.
  static void pack(const Lists& lists, Offset Piece::*at, const std::byte* data, std::vector<std::byte>& buffer) {
    std::byte* to = buffer.data();
    for (const auto& list : lists) {
      for (const Piece& piece : list) {
        std::memcpy(to, data + piece.*at, static_cast<std::size_t>(piece.length));
        to += piece.length;
      }
    }
  }
  static void unpack(const Lists& lists, Offset Piece::*at, const std::vector<std::byte>& buffer, std::byte* data) {
    const std::byte* from = buffer.data();
    for (const auto& list : lists) {
      for (const Piece& piece : list) {
        std::memcpy(data + piece.*at, from, static_cast<std::size_t>(piece.length));
        from += piece.length;
      }
    }
  }

  void move(bool write) {
    std::size_t done = 0;
    while (done < domain_.size()) {
      const ssize_t moved =
          write
              ? ::pwrite(descriptor_, domain_.data() + done, domain_.size() - done, first_ + static_cast<Offset>(done))
              : ::pread(descriptor_, domain_.data() + done, domain_.size() - done, first_ + static_cast<Offset>(done));
      if (moved == 0 && !write) break;  // a new file
      require(moved > 0, (write ? "pwrite " : "pread ") + path_);
      done += static_cast<std::size_t>(moved);
    }
  }

  std::string path_;
  int descriptor_ = -1;
  Offset first_ = 0;
  bool covers_all_ = false;
  std::vector<std::byte> domain_;
  Lists mine_;
  Lists theirs_;
  std::vector<int> mine_counts_, mine_places_, their_counts_, their_places_;
  std::vector<std::byte> out_, in_;
};

// --- checks ---------------------------------------------------------------------------------------------------------------------

void fill(Job& job) {
  for (const Piece& piece : job.pattern.mine) {
    for (Offset i = 0; i < piece.length; ++i)
      job.memory[static_cast<std::size_t>(piece.memory + i)] = content(piece.file + i);
  }
}

void check(const Job& job, const std::string& who) {
  for (const Piece& piece : job.pattern.mine) {
    for (Offset i = 0; i < piece.length; ++i) {
      if (job.memory[static_cast<std::size_t>(piece.memory + i)] == content(piece.file + i)) continue;
      give_up(who + ", " + job.pattern.name + ": wrong byte at " + std::to_string(piece.file + i));
    }
  }
}

void write_linear(const std::string& path, Offset bytes) {
  const Pattern pattern = contiguous(bytes);
  Job job{pattern, true, Operation::kWrite, std::vector<std::byte>(static_cast<std::size_t>(pattern.memory_span))};
  fill(job);
  MpiFile file(path, hint_sets().front(), true);
  file.set_view(pattern);
  file.run(job);
}

// --- tables ---------------------------------------------------------------------------------------------------------------------

struct Contender {
  std::string name;
  std::string note;
  bool is_ours = false;
  std::function<void()> before;  // not timed
  std::function<void()> turn;
  std::vector<double> seconds;
};

Spread ratio_of(const Contender& contender, const std::vector<double>& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(ours.size(), contender.seconds.size()); ++i)
    ratios.push_back(contender.seconds[i] / ours[i]);
  return spread_of(ratios);
}

void print_row(const Job& job, const char* operation, const Contender& contender, const std::vector<double>& ours,
               Offset bytes, const Settings& settings) {
  const Spread ratio = ratio_of(contender, ours);
  const double median = spread_of(contender.seconds).median;
  const char* way = job.collective ? "collective" : "independent";
  if (settings.json) {
    std::printf(
        "{\"mpi\": \"%s\", \"ranks\": %d, \"case\": \"%s\", \"way\": \"%s\", \"operation\": \"%s\", \"contender\": "
        "\"%s\", \"hints\": \"%s\", \"store\": \"%s\", \"servers\": %d, "
        "\"bytes\": %lld, \"milliseconds\": %.3f, \"ratio\": %.3f, \"ratio_low\": %.3f, \"ratio_high\": %.3f, "
        "\"repeats\": %zu}\n",
        WEIR_MPI_NAME, world_size(), job.pattern.name.c_str(), way, operation, contender.name.c_str(),
        contender.note.c_str(), settings.store.c_str(), settings.servers, bytes, median * 1e3, ratio.median, ratio.low,
        ratio.high, contender.seconds.size());
  } else {
    std::printf("%-24s %-11s %-8s %-12s %9.2f %9.0f %8.2f  [%.2f, %.2f] %s\n", job.pattern.name.c_str(), way, operation,
                contender.name.c_str(), median * 1e3, static_cast<double>(bytes) / median / 1e6, ratio.median,
                ratio.low, ratio.high, contender.note.c_str());
  }
  std::fflush(stdout);
}

void forget_pages(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  if (descriptor < 0) return;  // it has been removed
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

// Takes what rivals and Weir's store have on the disk out of the page cache.  \pre It is synced.
void forget_files(const Settings& settings) {
  for (const std::string& file : local_files()) forget_pages(file);
  const std::string disk = "disk:";
  if (settings.store.rfind(disk, 0) != 0) return;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(settings.store.substr(disk.size()), error)) {
    if (entry.is_regular_file(error)) forget_pages(entry.path().string());
  }
}

// One contender in one row of the tables.
struct Cell {
  std::string column;
  std::string hints;
  double megabytes_per_second = 0;
  Spread ratio;  // to the first contender
};

struct Place {
  std::string name;
  std::string path;
  bool is_ours = false;
};

class Row {
 public:
  Row(const Settings& settings, const Pattern& pattern, bool collective, Operation operation,
      const char* operation_name)
      : settings_(settings),
        name_(operation_name),
        job_{pattern, collective, operation, std::vector<std::byte>(static_cast<std::size_t>(pattern.memory_span))},
        copy_(static_cast<std::size_t>(pattern.bytes())) {
    const Offset mine = pattern.bytes();
    MPI_Allreduce(&mine, &bytes_, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  }

  void add_file(const Place& place, const HintSet& set) {
    auto file = std::make_shared<std::unique_ptr<MpiFile>>();
    const auto open = [this, file, place, set](bool fresh) {
      file->reset();
      *file = std::make_unique<MpiFile>(place.path, set, fresh);
      if (settings_.tables && !place.is_ours && job_.pattern.mine.size() == 1) {
        (*file)->set_plain_view(job_.pattern.mine.front());
      } else {
        (*file)->set_view(job_.pattern);
      }
      if (settings_.tables && place.is_ours)
        require((*file)->is_striped() == (place.name == "block"),
                place.name + ": " + place.path + " is stored otherwise");
    };
    if (!place.is_ours) local_files().insert(place.path);
    open(!job_.pattern.read_only);
    if (!job_.pattern.read_only) {
      const Operation asked = std::exchange(job_.operation, Operation::kWrite);
      fill(job_);
      (*file)->run(job_);
      job_.operation = asked;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    verify(place.name, [&] { (*file)->run(job_); });
    const bool fresh = makes_file(job_.operation);
    contenders_.push_back({place.name,
                           set.name == "default" ? "" : set.name,
                           place.is_ours,
                           [open, fresh] {
                             if (fresh) open(true);
                           },
                           [this, file] { (*file)->run(job_); },
                           {}});
  }

  void add_manual(const std::string& name, const std::string& path) {
    if (!job_.collective) return;
    local_files().insert(path);
    if (job_.pattern.read_only) write_linear(path, job_.pattern.file_bytes);
    auto manual = std::make_shared<Manual>(job_.pattern, path);
    if (!job_.pattern.read_only) {
      const Operation asked = std::exchange(job_.operation, Operation::kWrite);
      fill(job_);
      manual->run(job_);
      job_.operation = asked;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    verify(name, [&] { manual->run(job_); });
    const bool fresh = makes_file(job_.operation);
    contenders_.push_back({name,
                           "",
                           false,
                           [manual, fresh] {
                             if (fresh && world_rank() == 0) manual->empty();
                           },
                           [this, manual] { manual->run(job_); },
                           {}});
  }

  void add_memcpy() {
    contenders_.push_back(
        {"memcpy", "", false, [] {}, [this] { std::memcpy(copy_.data(), job_.memory.data(), copy_.size()); }, {}});
  }

  void measure() {
    rest();
    for (int repeat = 0; repeat < settings_.repeats; ++repeat) {
      for (Contender& contender : contenders_) {
        if (!contender.seconds.empty() && contender.seconds.back() > settings_.limit_seconds) continue;
        contender.before();
        settle();
        contender.seconds.push_back(seconds_of(contender.turn));
        if (contender.is_ours) rest();
      }
    }
  }

  // Of several hint sets of one place, the default and the fastest.
  void print() {
    if (world_rank() != 0) return;
    const auto best = fastest();
    for (const Contender& contender : contenders_) {
      if (contender.note.empty() || best.at(contender.name) == &contender)
        print_row(job_, name_, contender, contenders_.front().seconds, bytes_, settings_);
    }
  }

  // The same as cells of a table, one column for each contender and one more for the fastest hints.
  [[nodiscard]] std::vector<Cell> cells() const {
    const auto best = fastest();
    std::vector<Cell> cells;
    for (const Contender& contender : contenders_) {
      if (!contender.note.empty()) continue;
      cells.push_back(cell_of(contender.name, contender));
      if (has_hints(contender.name)) cells.push_back(cell_of(contender.name + " best", *best.at(contender.name)));
    }
    return cells;
  }

 private:
  void rest() const {
    if (makes_file(job_.operation)) ::usleep(static_cast<useconds_t>(settings_.rest_ms) * 1000);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // What others left to be written to the disk is not to be waited for in this turn.
  void settle() const {
    if (!uses_disk(settings_)) return;
    if (world_rank() == 0) {
      ::sync();
      if (job_.operation == Operation::kCold) forget_files(settings_);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  [[nodiscard]] std::map<std::string, const Contender*> fastest() const {
    std::map<std::string, const Contender*> best;
    for (const Contender& contender : contenders_) {
      const Contender*& one = best[contender.name];
      if (one == nullptr || spread_of(contender.seconds).median < spread_of(one->seconds).median) one = &contender;
    }
    return best;
  }

  [[nodiscard]] bool has_hints(const std::string& name) const {
    return std::any_of(contenders_.begin(), contenders_.end(),
                       [&](const Contender& one) { return one.name == name && !one.note.empty(); });
  }

  [[nodiscard]] Cell cell_of(const std::string& name, const Contender& contender) const {
    return {name, contender.note, static_cast<double>(bytes_) / spread_of(contender.seconds).median / 1e6,
            ratio_of(contender, contenders_.front().seconds)};
  }

  void verify(const std::string& who, const std::function<void()>& access) {
    const Operation asked = std::exchange(job_.operation, Operation::kRead);
    std::fill(job_.memory.begin(), job_.memory.end(), std::byte{0xEE});
    access();
    check(job_, who);
    job_.operation = asked;
  }

  const Settings& settings_;
  const char* name_;
  Job job_;
  std::vector<std::byte> copy_;
  Offset bytes_ = 0;
  std::vector<Contender> contenders_;
};

// Distinct from those of other runs on this machine.
std::string file_name() {
  int id = static_cast<int>(::getpid());
  MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return "/weir_mpiio_bench." + std::to_string(id) + ".";
}

// Those of the MPI library.
std::vector<Place> rival_places(const Settings& settings) {
  std::vector<Place> places = {{"tmpfs", settings.tmpfs + file_name()}};
  if (!settings.disk.empty()) places.push_back({"disk", settings.disk + file_name()});
  return places;
}

void add_rivals(Row& row, const Pattern& pattern, const std::vector<Place>& places) {
  for (const Place& place : places) {
    for (std::size_t i = 0; i < hint_sets().size(); ++i) {
      const std::string path = place.path + std::to_string(i);
      if (pattern.read_only) write_linear(path, pattern.file_bytes);
      row.add_file({place.name, path}, hint_sets()[i]);
    }
  }
}

// Collective; afterwards, nothing is left of a pattern.
void remove_files(const std::vector<std::string>& ours) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() != 0) return;
  for (const std::string& path : ours) MPI_File_delete(path.c_str(), MPI_INFO_NULL);
  remove_local_files();
}

void measure_calls(const Pattern& pattern, const Settings& settings) {
  if (pattern.name.find(settings.cases) == std::string::npos) return;
  const std::string ours = "weir:/mpiio_bench";
  const std::vector<Place> places = rival_places(settings);
  for (const bool collective : {false, true}) {
    for (const auto& [operation, name] : kOperations) {
      if (!is_asked(operation, name, settings)) continue;
      if (pattern.read_only && !only_reads(operation)) continue;
      Row row(settings, pattern, collective, operation, name);
      if (pattern.read_only) write_linear(ours, pattern.file_bytes);
      row.add_file({"weir", ours, true}, hint_sets().front());
      add_rivals(row, pattern, places);
      for (const Place& place : places)
        row.add_manual(place.name == "tmpfs" ? "manual" : "manual " + place.name, place.path + "manual");
      row.add_memcpy();
      row.measure();
      row.print();
    }
  }
  remove_files({ours});
}

void measure_pattern(Pattern pattern, const Settings& settings) {
  measure_calls(pattern, settings);
  if (pattern.filetype != MPI_BYTE) MPI_Type_free(&pattern.filetype);
  if (pattern.memory_type != pattern.etype) MPI_Type_free(&pattern.memory_type);
}

// 76 decompositions of an array of 10^9 elements: views must cost next to nothing.
void measure_views(const Settings& settings) {
  if (std::string("set_view").find(settings.cases) == std::string::npos) return;
  MpiFile file("weir:/mpiio_bench_views", hint_sets().front(), true);
  constexpr int kViews = 76;
  std::vector<Pattern> patterns;
  for (int i = 0; i < kViews; ++i) {
    Pattern pattern;
    pattern.etype = MPI_FLOAT;
    const int width = 1 + i * 13;
    pattern.filetype = subarray({1000, 1000, 1000}, {1000 - i, width, 500 + i},
                                {i, std::max(0, 1000 - width - world_rank()), 2 * i}, MPI_FLOAT);
    patterns.push_back(pattern);
  }
  const double seconds = seconds_of([&] {
    for (const Pattern& pattern : patterns) file.set_view(pattern);
  });
  if (world_rank() == 0) {
    if (settings.json) {
      std::printf("{\"mpi\": \"%s\", \"ranks\": %d, \"case\": \"set_view\", \"views\": %d, \"milliseconds\": %.3f}\n",
                  WEIR_MPI_NAME, world_size(), kViews, seconds * 1e3);
    } else {
      std::printf("set_view of %d decompositions of 1000 x 1000 x 1000 floats: %.2f ms in all\n", kViews,
                  seconds * 1e3);
    }
  }
  for (Pattern& pattern : patterns) MPI_Type_free(&pattern.filetype);
}

// --- how files are stored ---------------------------------------------------------------------------------------------------------

const char* way_to_servers() {
  const char* direct = std::getenv("WEIR_DIRECT");
  return direct != nullptr && std::strcmp(direct, "off") == 0 ? "by message" : "direct";
}

std::string describe(const Settings& settings) {
  return std::string(WEIR_MPI_NAME) + ", " + std::to_string(world_size()) + " ranks, " +
         std::to_string(settings.servers) + (settings.servers == 1 ? " server" : " servers") + " (" + way_to_servers() +
         "), store " + settings.store + ", " + std::to_string(settings.repeats) + " repeats";
}

// One figure: a table by file size, and the curves of a plot.
class Figure {
 public:
  explicit Figure(std::string title) : title_(std::move(title)) {}

  void add(Offset file_bytes, bool collective, const char* operation, const std::vector<Cell>& cells) {
    const std::string way = collective ? "collective" : "independent";
    const double mebibytes = static_cast<double>(file_bytes) / 1048576.0;
    std::vector<std::string> row = {weir::bench::number(mebibytes, 0), way, operation};
    for (const Cell& cell : cells) row.push_back(weir::bench::number(cell.megabytes_per_second, 0));
    std::vector<std::string> columns = {"MiB", "way", "call"};
    for (const Cell& cell : cells) columns.push_back(cell.column);
    std::string hints;
    for (const Cell& cell : cells) {
      if (!is_compared(cell, cells)) continue;
      columns.push_back(cell.column + "/" + cells.front().column);
      row.push_back(weir::bench::number(cell.ratio.median, 2) + " [" + weir::bench::number(cell.ratio.low, 2) + ", " +
                    weir::bench::number(cell.ratio.high, 2) + "]");
      if (!cell.hints.empty()) hints += (hints.empty() ? "" : "; ") + cell.hints;
    }
    columns.emplace_back("hints");
    row.push_back(hints);
    table_.columns = std::move(columns);
    table_.rows.push_back(std::move(row));
    plot(way + " " + operation, mebibytes, cells);
  }

  [[nodiscard]] weir::bench::Table table(const Settings& settings) const {
    weir::bench::Table table = table_;
    table.title = title_ + ": " + describe(settings) + "; MB/s";
    return table;
  }
  [[nodiscard]] const std::vector<weir::bench::PlotPanel>& panels() const { return panels_; }

 private:
  // Of a place with hints, only the fastest.  The bound is for the eye.
  static bool is_compared(const Cell& cell, const std::vector<Cell>& cells) {
    if (&cell == &cells.front() || cell.column == "memcpy") return false;
    return std::none_of(cells.begin(), cells.end(),
                        [&](const Cell& other) { return other.column == cell.column + " best"; });
  }

  void plot(const std::string& call, double mebibytes, const std::vector<Cell>& cells) {
    const std::string title = title_ + ", " + call;
    auto panel = std::find_if(panels_.begin(), panels_.end(), [&](const auto& one) { return one.title == title; });
    if (panel == panels_.end()) {
      panels_.push_back({title, "file, MiB", "MB/s", false, {}});
      panel = panels_.end() - 1;
      for (const Cell& cell : cells) panel->series.push_back({cell.column, {}});
    }
    for (std::size_t i = 0; i < cells.size(); ++i)
      panel->series[i].points.push_back({mebibytes, cells[i].megabytes_per_second});
  }

  std::string title_;
  weir::bench::Table table_;
  std::vector<weir::bench::PlotPanel> panels_;
};

void measure_storage(Pattern pattern, const Settings& settings, Figure& figure) {
  const std::string ours = "weir:/mpiio_bench_";
  const std::vector<Place> places = rival_places(settings);
  for (const bool collective : {false, true}) {
    for (const auto& [operation, name] : kOperations) {
      if (!is_asked(operation, name, settings)) continue;
      Row row(settings, pattern, collective, operation, name);
      row.add_file({"view", ours + "view", true}, {"default", {{"weir_layout", "view"}}});
      row.add_file({"block", ours + "block", true}, hint_sets().front());
      add_rivals(row, pattern, places);
      row.add_memcpy();
      row.measure();
      if (settings.json) row.print();
      if (world_rank() == 0) figure.add(pattern.file_bytes, collective, name, row.cells());
    }
  }
  remove_files({ours + "view", ours + "block"});
  MPI_Type_free(&pattern.filetype);
}

// plot.svg becomes plot-4.svg: each number of ranks is a run of its own.
std::string with_ranks(const std::string& file) {
  const std::size_t dot = file.rfind('.');
  const std::size_t at = dot == std::string::npos || file.find('/', dot) != std::string::npos ? file.size() : dot;
  return file.substr(0, at) + "-" + std::to_string(world_size()) + file.substr(at);
}

void run_tables(const Settings& settings) {
  Figure contiguous_parts("contiguous");
  Figure strided_parts("strided");
  for (int edge = 64; Offset{4} * edge * edge * edge <= settings.file_bytes; edge *= 2) {
    if (std::string("contiguous").find(settings.cases) != std::string::npos)
      measure_storage(subcubes("contiguous", {edge * edge * edge}, MPI_INT, 4), settings, contiguous_parts);
    if (std::string("strided").find(settings.cases) != std::string::npos)
      measure_storage(subcubes("strided", {edge, edge, edge}, MPI_INT, 4), settings, strided_parts);
  }
  if (world_rank() != 0) return;
  std::vector<weir::bench::PlotPanel> panels;
  for (const Figure* figure : {&contiguous_parts, &strided_parts}) {
    if (figure->panels().empty()) continue;
    panels.insert(panels.end(), figure->panels().begin(), figure->panels().end());
    if (!settings.json) weir::bench::print_text({figure->table(settings)});
  }
  if (!settings.svg.empty())
    weir::bench::write_file(with_ranks(settings.svg), weir::bench::draw_panels(describe(settings), panels, 3));
}

void run(const Settings& settings) {
  if (world_rank() == 0 && !settings.json) {
    std::printf("%s, %.1f MiB per rank\n", describe(settings).c_str(),
                static_cast<double>(settings.bytes_per_rank) / 1048576.0);
    std::printf("%-24s %-11s %-8s %-12s %9s %9s %8s  %s\n", "case", "way", "call", "contender", "ms", "MB/s", "ratio",
                "quartiles, hints");
  }
  measure_views(settings);
  const int cube = cube_edge(settings, 4);
  const int quarter = std::max(8, cube_edge(settings, 8 * 512) / 2 * 2);  // rows of 512 elements, 4 KiB
  measure_pattern(contiguous(settings.bytes_per_rank * world_size()), settings);
  measure_pattern(blocks(settings), settings);
  measure_pattern(columns_of_blocks(settings), settings);
  for (const int k : {1, 4, 8, 32, 64}) measure_pattern(cyclic(settings, k), settings);
  measure_pattern(subcubes("3-D ints", {cube, cube, cube}, MPI_INT, 4), settings);
  measure_pattern(subcubes("4-D, rows of 4 KiB", {quarter, quarter, quarter, 512}, MPI_DOUBLE, 8), settings);
  measure_pattern(scattered(), settings);
  measure_pattern(overlapping_tiles(settings), settings);
  measure_pattern(memory_gaps(settings), settings);
  measure_pattern(checkpoint(settings), settings);
}

constexpr const char* kUsage =
    "usage: mpiio_bench [--tables] [--mb N] [--repeats N] [--case TEXT] [--only write|rewrite|read|durable|cold]\n"
    "                   [--tmpfs DIR] [--disk DIR] [--limit SECONDS] [--rest MS] [--json]\n"
    "                   [--file-mb N] [--svg FILE] [--store TEXT] [--servers N]\n"
    "`weir bench mpiio --help` says what they mean.  --store and --servers are what `weir run` was told, to be "
    "reported.\n";

bool is_operation(const std::string& text) {
  return std::any_of(std::begin(kOperations), std::end(kOperations),
                     [&](const auto& operation) { return text == operation.second; });
}

Settings parse_arguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string text = i + 1 < argc ? argv[i + 1] : "";
    const double value = std::atof(text.c_str());
    if (argument == "--help" || argument == "-h") {
      if (world_rank() == 0) std::fputs(kUsage, stdout);
      MPI_Finalize();
      std::exit(0);
    }
    if (argument == "--json" || argument == "--tables") {
      (argument == "--json" ? settings.json : settings.tables) = true;
      continue;
    }
    require(!text.empty(), kUsage);
    ++i;
    if (argument == "--mb" && value > 0 && value <= 512) {
      settings.bytes_per_rank = static_cast<Offset>(value * 1048576.0) / 4096 * 4096;
    } else if (argument == "--repeats" && value >= 1) {
      settings.repeats = static_cast<int>(value);
    } else if (argument == "--limit" && value > 0) {
      settings.limit_seconds = value;
    } else if (argument == "--rest" && value >= 0 && value <= 10000) {
      settings.rest_ms = static_cast<int>(value);
    } else if (argument == "--case") {
      settings.cases = text;
    } else if (argument == "--only" && is_operation(text)) {
      settings.operations = text;
    } else if (argument == "--file-mb" && value >= 1 && value <= 512) {
      settings.file_bytes = static_cast<Offset>(value * 1048576.0);
    } else if (argument == "--svg") {
      settings.svg = text;
    } else if (argument == "--store") {
      settings.store = text;
    } else if (argument == "--servers" && value >= 1) {
      settings.servers = static_cast<int>(value);
    } else if (argument == "--tmpfs") {
      settings.tmpfs = text;
    } else if (argument == "--disk") {
      settings.disk = text;
    } else {
      give_up(kUsage);
    }
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Settings settings = parse_arguments(argc, argv);
  settings.tables ? run_tables(settings) : run(settings);
  MPI_Finalize();
  return 0;
}
