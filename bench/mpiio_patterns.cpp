#include "mpiio_patterns.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <unistd.h>

namespace weir::mpiio_bench {

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

std::set<std::string>& local_files() {
  static std::set<std::string> files;
  return files;
}

void remove_local_files() {
  for (const std::string& file : local_files()) ::unlink(file.c_str());
  local_files().clear();
}

void give_up(const std::string& what) {
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

std::byte content(Offset x) {
  const auto word = static_cast<unsigned long long>(x / 4) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::byte>(word >> (32 + 8 * (x % 4)));
}

namespace {

MPI_Datatype committed(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return type;
}

}  // namespace

MPI_Datatype subarray(const std::vector<int>& shape, const std::vector<int>& part, const std::vector<int>& at,
                      MPI_Datatype element) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(static_cast<int>(shape.size()), shape.data(), part.data(), at.data(), MPI_ORDER_C, element,
                           &type);
  return committed(type);
}

namespace {

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

}  // namespace

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

}  // namespace weir::mpiio_bench
