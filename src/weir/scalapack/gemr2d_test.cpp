// The drop-in against ScaLAPACK's own routine, byte for byte, on random descriptors.  Every rank draws the same random
// numbers.

#include <weir/scalapack/gemr2d.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridmap(int* context, const int* map, int leading_dimension, int rows, int columns);
void Cblacs_gridinfo(int context, int* rows, int* columns, int* row, int* column);
void Cblacs_gridexit(int context);
int numroc_(const int* n, const int* block, const int* process, const int* source, const int* processes);
}

namespace {

using Bytes = std::vector<std::byte>;
using C = void(int, int, const void*, int, int, const int*, void*, int, int, const int*, int);
using CAmongAll = void(int, int, const void*, int, int, const int*, void*, int, int, const int*);
using Fortran = void(const int*, const int*, const void*, const int*, const int*, const int*, void*, const int*,
                     const int*, const int*, const int*);
using FortranAmongAll = void(const int*, const int*, const void*, const int*, const int*, const int*, void*, const int*,
                             const int*, const int*);

struct Type {
  char letter;
  int elem;
  C* c;
  CAmongAll* c_among_all;
  Fortran* fortran;
  FortranAmongAll* fortran_among_all;
};

const std::array kTypes{
    Type{'i', 4, Cpigemr2d, Cpigemr2do, pigemr2d_, pigemr2do_},
    Type{'s', 4, Cpsgemr2d, Cpsgemr2do, psgemr2d_, psgemr2do_},
    Type{'d', 8, Cpdgemr2d, Cpdgemr2do, pdgemr2d_, pdgemr2do_},
    Type{'c', 8, Cpcgemr2d, Cpcgemr2do, pcgemr2d_, pcgemr2do_},
    Type{'z', 16, Cpzgemr2d, Cpzgemr2do, pzgemr2d_, pzgemr2do_},
};

C* scalapack(const Type& type) {
  static void* const library = dlopen(WEIR_SCALAPACK_LIBRARY, RTLD_NOW);
  void* const found =
      library == nullptr ? nullptr : dlsym(library, (std::string("Cp") + type.letter + "gemr2d").c_str());
  if (found == nullptr || found == reinterpret_cast<void*>(type.c)) {
    ADD_FAILURE() << "no routine to compare with in " << WEIR_SCALAPACK_LIBRARY;
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return reinterpret_cast<C*>(found);
}

struct World {
  int rank = 0;
  int size = 1;
};

World world() {
  World w;
  MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &w.size);
  return w;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int between(int low, int high) { return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1)); }
  bool one_in(int n) { return between(1, n) == 1; }
  std::vector<int> shuffled(std::vector<int> values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<std::size_t>(between(0, static_cast<int>(i) - 1))]);
    }
    return values;
  }

 private:
  std::mt19937 engine_;
};

// A grid of processes given by their ranks, column by column; -1 on those who are not in it.
class Grid {
 public:
  Grid(const std::vector<int>& ranks, int rows, int columns) {
    Cblacs_get(0, 0, &context_);
    Cblacs_gridmap(&context_, ranks.data(), rows, rows, columns);
    if (context_ < 0) return;
    Cblacs_gridinfo(context_, &rows_, &columns_, &row_, &column_);
  }
  ~Grid() {
    if (context_ >= 0) Cblacs_gridexit(context_);
  }
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  [[nodiscard]] int context() const { return context_; }
  [[nodiscard]] bool is_member() const { return context_ >= 0; }
  [[nodiscard]] int rows() const { return rows_; }
  [[nodiscard]] int columns() const { return columns_; }
  [[nodiscard]] int row() const { return row_; }
  [[nodiscard]] int column() const { return column_; }

 private:
  int context_ = -1;
  int rows_ = -1;
  int columns_ = -1;
  int row_ = -1;
  int column_ = -1;
};

struct Shape {
  int rows = 1;
  int columns = 1;
};

Shape random_shape(Random& random, int processes) {
  const int rows = random.between(1, processes);
  return {rows, random.between(1, processes / rows)};
}

struct Plain {
  int m = 0;
  int n = 0;
  int row_block = 1;
  int column_block = 1;
  int row_source = 0;
  int column_source = 0;
  int extra_rows = 0;  // of the leading dimension
};

// A distributed matrix, filled with numbers that differ everywhere, with guards around it.
class Matrix {
 public:
  Matrix(const Grid& grid, const Plain& plain, int elem, unsigned salt) : elem_(static_cast<std::size_t>(elem)) {
    int my_rows = 0;
    int my_columns = 0;
    if (grid.is_member()) {
      const int rows = grid.rows();
      const int columns = grid.columns();
      const int row = grid.row();
      const int column = grid.column();
      my_rows = numroc_(&plain.m, &plain.row_block, &row, &plain.row_source, &rows);
      my_columns = numroc_(&plain.n, &plain.column_block, &column, &plain.column_source, &columns);
    }
    const int leading_dimension = std::max(1, my_rows + plain.extra_rows);
    descriptor_ = {1,
                   grid.context(),
                   plain.m,
                   plain.n,
                   plain.row_block,
                   plain.column_block,
                   plain.row_source,
                   plain.column_source,
                   leading_dimension};
    // Only the context counts for a process outside.
    if (!grid.is_member()) descriptor_ = {-7, -1, -7, -7, -7, -7, -7, -7, -7};
    const auto numbers = static_cast<std::size_t>(leading_dimension) * static_cast<std::size_t>(my_columns);
    bytes_.resize((numbers + 2 * kGuard) * elem_);
    std::mt19937 engine(salt * 1000003u + static_cast<unsigned>(world().rank));
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(engine() >> 11);
  }

  [[nodiscard]] std::byte* data() { return bytes_.data() + kGuard * elem_; }
  [[nodiscard]] const int* descriptor() const { return descriptor_.data(); }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kGuard = 8;
  std::size_t elem_;
  std::array<int, 9> descriptor_{};
  Bytes bytes_;
};

struct Corner {
  int row = 1;
  int column = 1;
};

// A matrix that holds an m x n submatrix somewhere.
Plain random_plain(Random& random, int m, int n, const Shape& grid) {
  const auto block = [&](int extent) {
    return random.one_in(3) ? random.between(1, 4) : random.between(1, std::max(1, extent + extent / 4));
  };
  Plain plain;
  plain.m = m + (random.one_in(2) ? random.between(0, 30) : 0);
  plain.n = n + (random.one_in(2) ? random.between(0, 30) : 0);
  plain.row_block = block(plain.m);
  plain.column_block = block(plain.n);
  plain.row_source = random.between(0, grid.rows - 1);
  plain.column_source = random.between(0, grid.columns - 1);
  plain.extra_rows = random.one_in(2) ? random.between(0, 9) : 0;
  return plain;
}

std::string show(const Plain& p, const Shape& grid, const Corner& at) {
  return testing::PrintToString(std::vector<int>{p.m, p.n, p.row_block, p.column_block, p.row_source, p.column_source,
                                                 p.extra_rows, grid.rows, grid.columns, at.row, at.column});
}

void call_dropin(const Type& type, int form, int m, int n, const void* a, const Corner& in_a, const int* desc_a,
                 void* b, const Corner& in_b, const int* desc_b, int context) {
  switch (form) {
    case 0: type.c(m, n, a, in_a.row, in_a.column, desc_a, b, in_b.row, in_b.column, desc_b, context); return;
    case 1:
      type.fortran(&m, &n, a, &in_a.row, &in_a.column, desc_a, b, &in_b.row, &in_b.column, desc_b, &context);
      return;
    case 2: type.c_among_all(m, n, a, in_a.row, in_a.column, desc_a, b, in_b.row, in_b.column, desc_b); return;
    default:
      type.fortran_among_all(&m, &n, a, &in_a.row, &in_a.column, desc_a, b, &in_b.row, &in_b.column, desc_b);
      return;
  }
}

// One random call; all contexts are new ones.
void compare_once(unsigned seed) {
  Random random(seed);
  const World w = world();
  const Type& type = kTypes[static_cast<std::size_t>(random.between(0, static_cast<int>(kTypes.size()) - 1))];
  std::vector<int> everyone(static_cast<std::size_t>(w.size));
  std::iota(everyone.begin(), everyone.end(), 0);

  // Callers: often all, sometimes only some of the processes.
  std::vector<int> callers = random.one_in(2) ? random.shuffled(everyone) : everyone;
  if (random.one_in(4)) callers.resize(static_cast<std::size_t>(random.between(1, w.size)));
  const auto count = static_cast<int>(callers.size());
  int rows = random.between(1, count);
  while (count % rows != 0) --rows;
  const Grid all(callers, rows, count / rows);
  const Shape shape_a = random_shape(random, count);
  const Shape shape_b = random_shape(random, count);
  const Grid grid_a(random.shuffled(callers), shape_a.rows, shape_a.columns);
  const Grid grid_b(random.shuffled(callers), shape_b.rows, shape_b.columns);

  const int longest = random.one_in(8) ? 400 : 60;
  const int m = random.between(1, longest);
  const int n = random.between(1, longest);
  const Plain plain_a = random_plain(random, m, n, shape_a);
  const Plain plain_b = random_plain(random, m, n, shape_b);
  const Corner in_a{random.between(1, plain_a.m - m + 1), random.between(1, plain_a.n - n + 1)};
  const Corner in_b{random.between(1, plain_b.m - m + 1), random.between(1, plain_b.n - n + 1)};
  const int form = random.between(0, count == w.size ? 3 : 1);
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", p" << type.letter << "gemr2d, form " << form << ", " << m
                                  << " x " << n << ", A " << show(plain_a, shape_a, in_a) << ", B "
                                  << show(plain_b, shape_b, in_b));
  if (!all.is_member()) return;

  for (unsigned turn = 0; turn < 2; ++turn) {  // the second time with a plan that exists
    Matrix a(grid_a, plain_a, type.elem, seed * 2 + turn);
    Matrix expected(grid_b, plain_b, type.elem, seed + 77);
    Matrix b(grid_b, plain_b, type.elem, seed + 77);
    const Bytes before = a.bytes();
    scalapack(type)(m, n, a.data(), in_a.row, in_a.column, a.descriptor(), expected.data(), in_b.row, in_b.column,
                    expected.descriptor(), all.context());
    call_dropin(type, form, m, n, a.data(), in_a, a.descriptor(), b.data(), in_b, b.descriptor(), all.context());
    EXPECT_EQ(a.bytes(), before);
    EXPECT_TRUE(b.bytes() == expected.bytes());
  }
}

TEST(Gemr2dTest, DoesWhatScalapackDoes) {
  for (unsigned seed = 1; seed <= 150; ++seed) {
    compare_once(seed);
    if (HasFailure()) return;  // the others may hang
  }
}

std::vector<int> ranks_from(int first) {
  std::vector<int> ranks(static_cast<std::size_t>(world().size));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = (static_cast<int>(i) + first) % world().size;
  return ranks;
}

// More than the buffers of one round: large blocks, long messages.
TEST(Gemr2dTest, MovesLargeMatrices) {
  const int size = world().size;
  const Grid all(ranks_from(0), 1, size);
  const Grid column(ranks_from(0), size, 1);
  const Plain plain_a{1500, 1100, 64, 64, 0, 0, 0};
  const Plain plain_b{1500, 1100, 50, 7, 0, 0, 3};
  const Type& type = kTypes[2];
  Matrix a(column, plain_a, type.elem, 1);
  Matrix expected(all, plain_b, type.elem, 2);
  Matrix b(all, plain_b, type.elem, 2);
  scalapack(type)(1500, 1100, a.data(), 1, 1, a.descriptor(), expected.data(), 1, 1, expected.descriptor(),
                  all.context());
  type.c(1500, 1100, a.data(), 1, 1, a.descriptor(), b.data(), 1, 1, b.descriptor(), all.context());
  EXPECT_TRUE(b.bytes() == expected.bytes());
}

// The BLACS give the number of a context that is gone to the next one, whose processes sit elsewhere.
TEST(Gemr2dTest, KeepsNothingOfAContextThatIsGone) {
  const Plain plain_a{23, 17, 3, 2, 0, 0, 1};
  const Plain plain_b{23, 17, 5, 4, 0, 0, 0};
  const Type& type = kTypes[2];
  for (int first = 0; first <= world().size; ++first) {
    const Grid all(ranks_from(first), 1, world().size);
    const Grid grid_a(ranks_from(2 * first), 1, world().size);
    Matrix a(grid_a, plain_a, type.elem, static_cast<unsigned>(first));
    Matrix expected(all, plain_b, type.elem, 5);
    Matrix b(all, plain_b, type.elem, 5);
    scalapack(type)(23, 17, a.data(), 1, 1, a.descriptor(), expected.data(), 1, 1, expected.descriptor(),
                    all.context());
    type.c(23, 17, a.data(), 1, 1, a.descriptor(), b.data(), 1, 1, b.descriptor(), all.context());
    ASSERT_TRUE(b.bytes() == expected.bytes()) << first;
  }
}

// More different calls than plans are kept, again and again; processes outside of A cannot tell some of them apart.
TEST(Gemr2dTest, TellsCallsApartThatLookAlikeFromOutside) {
  const World w = world();
  const Grid all(ranks_from(0), 1, w.size);
  const Grid first({0}, 1, 1);
  const Type& type = kTypes[2];
  for (int turn = 0; turn < 60; ++turn) {
    const int shift = turn * 7 % 20 + 1;
    const Plain plain_a{40, 40, 4, 4, 0, 0, 0};
    const Plain plain_b{20, 20, 3, 3, 0, 0, 0};
    Matrix a(first, plain_a, type.elem, 3);
    Matrix expected(all, plain_b, type.elem, 4);
    Matrix b(all, plain_b, type.elem, 4);
    scalapack(type)(20, 20, a.data(), shift, 1, a.descriptor(), expected.data(), 1, 1, expected.descriptor(),
                    all.context());
    type.c(20, 20, a.data(), w.rank == 0 ? shift : -1, 1, a.descriptor(), b.data(), 1, 1, b.descriptor(),
           all.context());
    ASSERT_TRUE(b.bytes() == expected.bytes()) << turn;
  }
}

// ScaLAPACK does this right on one process only; the drop-in does on any number.
TEST(Gemr2dTest, CopiesWithinOneArray) {
  const Grid all(ranks_from(0), 1, world().size);
  const Plain plain{40, 40, 3, 3, 0, 0, 2};
  const Type& type = kTypes[4];
  Matrix source(all, plain, type.elem, 9);
  Matrix expected(all, plain, type.elem, 9);
  Matrix both(all, plain, type.elem, 9);
  scalapack(type)(30, 31, source.data(), 1, 1, source.descriptor(), expected.data(), 8, 6, expected.descriptor(),
                  all.context());
  type.c(30, 31, both.data(), 1, 1, both.descriptor(), both.data(), 8, 6, both.descriptor(), all.context());
  EXPECT_TRUE(both.bytes() == expected.bytes());
}

// Nothing is looked at, nobody is waited for.
TEST(Gemr2dTest, NothingToCopyIsNoCall) {
  if (world().rank != 0) return;
  const std::array<int, 9> none{1, -1, 0, 0, 1, 1, 0, 0, 1};
  Cpdgemr2d(0, 5, nullptr, 1, 1, none.data(), nullptr, 1, 1, none.data(), -1);
  Cpdgemr2do(5, 0, nullptr, 1, 1, none.data(), nullptr, 1, 1, none.data());
}

// Ends the program, so it is a test of its own that looks at what is printed.
TEST(Gemr2dAbortTest, DISABLED_DifferentBlocks) {
  const Grid all(ranks_from(0), 1, world().size);
  Plain plain{12, 12, 3, 3, 0, 0, 0};
  Matrix a(all, plain, 8, 1);
  if (world().rank == 1) plain.row_block = 4;
  Matrix b(all, plain, 8, 1);
  Cpdgemr2d(12, 12, a.data(), 1, 1, a.descriptor(), b.data(), 1, 1, b.descriptor(), all.context());
}

}  // namespace
