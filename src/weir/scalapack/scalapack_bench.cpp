// pdgemr2d of the drop-in against ScaLAPACK's own, in one run, turn by turn.
//
//   mpirun -n 2 scalapack_bench [--size N] [--runs N] [--json]
//
// For each case: the time of the slowest process, each call behind a barrier.  `ratio` is ScaLAPACK's time over ours,
// the median over the pairs of neighbouring runs, with the quartiles; `first` is ScaLAPACK's median over our first
// call, which plans.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>

#include <weir/scalapack/gemr2d.h>

extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridinfo(int context, int* rows, int* columns, int* row, int* column);
void Cblacs_gridexit(int context);
int numroc_(const int* n, const int* block, const int* process, const int* source, const int* processes);
}

namespace {

using Gemr2d = void(int, int, const void*, int, int, const int*, void*, int, int, const int*, int);

struct Options {
  int size = 0;  // 0: 64 MiB per process
  int runs = 9;
  bool is_json = false;
};

struct Layout {
  int grid_rows;
  int grid_columns;
  int row_block;
  int column_block;
};

struct Case {
  std::string name;
  Layout from;
  Layout to;
};

struct Sample {
  double median = 0;
  double low = 0;  // quartiles
  double high = 0;
};

struct Outcome {
  Sample ratio;
  Sample gigabytes;  // moved per second by the drop-in, all processes together
  double first = 0;
  bool is_equal = false;
};

Sample summarise(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    return values[static_cast<std::size_t>(std::lround(part * static_cast<double>(values.size() - 1)))];
  };
  return {at(0.5), at(0.25), at(0.75)};
}

// A distributed matrix of doubles.
class Matrix {
 public:
  Matrix(int size, const Layout& layout) {
    Cblacs_get(0, 0, &context_);
    Cblacs_gridinit(&context_, "R", layout.grid_rows, layout.grid_columns);
    int rows = 0;
    int columns = 0;
    int row = 0;
    int column = 0;
    Cblacs_gridinfo(context_, &rows, &columns, &row, &column);
    const int source = 0;
    const int my_rows = numroc_(&size, &layout.row_block, &row, &source, &rows);
    const int my_columns = numroc_(&size, &layout.column_block, &column, &source, &columns);
    const int leading_dimension = std::max(1, my_rows);
    const int descriptor[] = {1, context_, size, size, layout.row_block, layout.column_block, 0, 0, leading_dimension};
    std::copy(std::begin(descriptor), std::end(descriptor), descriptor_);
    numbers_.assign(static_cast<std::size_t>(leading_dimension) * static_cast<std::size_t>(my_columns), 0.0);
  }
  ~Matrix() { Cblacs_gridexit(context_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  std::vector<double>& numbers() { return numbers_; }
  [[nodiscard]] const int* descriptor() const { return descriptor_; }

 private:
  int context_ = -1;
  int descriptor_[9];
  std::vector<double> numbers_;
};

class Bench {
 public:
  Bench(Gemr2d* real, const Options& options) : real_(real), options_(options) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    if (options_.size == 0) options_.size = static_cast<int>(std::sqrt(ranks_ * 64.0 * 1024 * 1024 / sizeof(double)));
    Cblacs_get(0, 0, &all_);
    Cblacs_gridinit(&all_, "R", 1, ranks_);
  }
  ~Bench() { Cblacs_gridexit(all_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] bool is_speaker() const { return rank_ == 0; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int size() const { return options_.size; }

  Outcome run(const Case& what) {
    Matrix a(options_.size, what.from);
    Matrix b(options_.size, what.to);
    for (std::size_t i = 0; i < a.numbers().size(); ++i) a.numbers()[i] = static_cast<double>(i) + rank_ * 1e9;
    const auto real = [&] { return time_of(real_, a, b); };
    const auto ours = [&] { return time_of(Cpdgemr2d, a, b); };

    static_cast<void>(real());  // touches all memory
    const std::vector<double> expected = b.numbers();
    std::fill(b.numbers().begin(), b.numbers().end(), -1.0);
    const double first = ours();
    int is_equal = b.numbers() == expected ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &is_equal, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);

    const double bytes = static_cast<double>(options_.size) * options_.size * sizeof(double);
    std::vector<double> reals;
    std::vector<double> ratios;
    std::vector<double> speeds;
    for (int i = 0; i < options_.runs; ++i) {
      const double theirs = real();
      const double mine = ours();
      reals.push_back(theirs);
      ratios.push_back(theirs / mine);
      speeds.push_back(bytes / mine * 1e-9);
    }
    return {summarise(ratios), summarise(speeds), summarise(reals).median / first, is_equal != 0};
  }

 private:
  double time_of(Gemr2d* gemr2d, Matrix& a, Matrix& b) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    gemr2d(options_.size, options_.size, a.numbers().data(), 1, 1, a.descriptor(), b.numbers().data(), 1, 1,
           b.descriptor(), all_);
    double seconds = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
  }

  Gemr2d* real_;
  Options options_;
  int rank_ = 0;
  int ranks_ = 1;
  int all_ = -1;
};

std::vector<Case> cases_of(int ranks, int size) {
  int rows = static_cast<int>(std::sqrt(ranks));
  while (ranks % rows != 0) --rows;
  const int columns = ranks / rows;
  const int part = (size + ranks - 1) / ranks;
  return {
      {"BLOCK -> CYCLIC(1), rows", {ranks, 1, part, size}, {ranks, 1, 1, size}},
      {"CYCLIC(1) -> BLOCK, rows", {ranks, 1, 1, size}, {ranks, 1, part, size}},
      {"BLOCK -> CYCLIC(1), columns", {1, ranks, size, part}, {1, ranks, size, 1}},
      {"64x64 -> 32x32 blocks", {rows, columns, 64, 64}, {rows, columns, 32, 32}},
      {"64x64 -> 32x32 blocks, turned grid", {rows, columns, 64, 64}, {columns, rows, 32, 32}},
      {"32x32 -> 128x128 blocks", {rows, columns, 32, 32}, {rows, columns, 128, 128}},
      {"64x64 -> 48x48 blocks, turned grid", {rows, columns, 64, 64}, {columns, rows, 48, 48}},
      {"64x64 -> 37x53 blocks, turned grid", {rows, columns, 64, 64}, {columns, rows, 37, 53}},
      {"4x4 -> 5x5 blocks, turned grid", {rows, columns, 4, 4}, {columns, rows, 5, 5}},
  };
}

void print_row(const Case& what, const Outcome& outcome, const Bench& bench, bool is_json) {
  const char* verdict = outcome.is_equal ? "" : "  WRONG";
  if (is_json) {
    std::printf(
        "{\"case\":\"%s\",\"ranks\":%d,\"size\":%d,\"rival\":\"ScaLAPACK\",\"ratio\":%.3f,\"ratio_low\":%.3f,\"ratio_"
        "high\":%.3f,"
        "\"gigabytes_per_second\":%.3f,\"first\":%.3f,\"equal\":%s}\n",
        what.name.c_str(), bench.ranks(), bench.size(), outcome.ratio.median, outcome.ratio.low, outcome.ratio.high,
        outcome.gigabytes.median, outcome.first, outcome.is_equal ? "true" : "false");
  } else {
    std::printf("%-36s %7.2f  %6.2f .. %-6.2f %7.2f %8.2f%s\n", what.name.c_str(), outcome.ratio.median,
                outcome.ratio.low, outcome.ratio.high, outcome.first, outcome.gigabytes.median, verdict);
  }
  std::fflush(stdout);
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      options.is_json = true;
    } else if ((name == "--size" || name == "--runs") && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      (name == "--size" ? options.size : options.runs) = std::atoi(argv[++i]);
    } else {
      return false;
    }
  }
  return true;
}

int run(const Options& options) {
  void* const library = dlopen(WEIR_SCALAPACK_LIBRARY, RTLD_NOW);
  void* const real = library != nullptr ? dlsym(library, "Cpdgemr2d") : nullptr;
  if (real == nullptr || real == reinterpret_cast<void*>(&Cpdgemr2d)) {
    std::fprintf(stderr, "scalapack_bench: no Cpdgemr2d of its own in %s\n", WEIR_SCALAPACK_LIBRARY);
    return 1;
  }
  Bench bench(reinterpret_cast<Gemr2d*>(real), options);
  if (bench.is_speaker() && !options.is_json) {
    std::printf("pdgemr2d of %d x %d doubles on %d ranks against ScaLAPACK, %d runs each\n", bench.size(), bench.size(),
                bench.ranks(), options.runs);
    std::printf("%-36s %7s  %16s %7s %8s\n", "", "ratio", "quartiles", "first", "GB/s");
  }
  bool is_right = true;
  for (const Case& what : cases_of(bench.ranks(), bench.size())) {
    const Outcome outcome = bench.run(what);
    is_right = is_right && outcome.is_equal;
    if (bench.is_speaker()) print_row(what, outcome, bench, options.is_json);
  }
  return is_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options options;
  int code = 2;
  if (parse(argc, argv, options)) {
    code = run(options);
  } else {
    std::fprintf(stderr, "usage: scalapack_bench [--size N] [--runs N] [--json]\n");
  }
  MPI_Finalize();
  return code;
}
