#include <weir/scalapack/internal/routine.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include <mpi.h>

#include <weir/base/text.h>
#include <weir/scalapack/internal/blacs.h>
#include <weir/scalapack/internal/plan_cache.h>

namespace weir::scalapack::internal {

namespace {

enum Field { kContext = 1, kRows, kColumns, kRowBlock, kColumnBlock, kRowSource, kColumnSource, kLeadingDimension };

// Programs call by the names of ScaLAPACK: there is nobody to be given another one by.
const runtime::Runtime& machine() {
  static const runtime::Runtime own = runtime::system_runtime();
  return own;
}

bool is_off() {
  static const bool off = [] {
    const std::string value = machine().settings->get("WEIR_SCALAPACK");
    return value == "off" || value == "0";
  }();
  return off;
}

[[noreturn]] void abort_program(const std::string& message, MPI_Comm comm) {
  std::fprintf(stderr, "weir: %s\n", message.c_str());
  std::fflush(stderr);
  MPI_Abort(comm, 1);
  std::abort();
}

// Errors in arguments are found by all processes alike: the first one speaks and ends the others.
[[noreturn]] void fail(const Status& status, MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (status.code() == ErrorCode::kInvalidArgument && rank != 0) MPI_Barrier(comm);
  abort_program(status.message(), comm);
}

const Blacs& blacs() {
  static const Blacs found = [] {
    Result<Blacs> result = Blacs::find(*machine().settings);
    if (!result.is_ok()) abort_program(concat("p?gemr2d: ", result.status().message()), MPI_COMM_WORLD);
    return *result;
  }();
  return found;
}

Side side_of(const Matrix& matrix) {
  const int* const d = matrix.descriptor;
  if (d[kContext] < 0) return {};
  const GridPosition at = blacs().position(d[kContext]);
  if (at.my_row < 0) return {};
  return {d[kRows],         d[kColumns],         d[kRowBlock], d[kColumnBlock], d[kRowSource],        d[kColumnSource],
          matrix.first_row, matrix.first_column, at.rows,      at.columns,      d[kLeadingDimension], at.my_row,
          at.my_column};
}

// \returns false if ScaLAPACK is to do it
bool run(Routine routine, int m, int n, const void* a, const Matrix& in_a, void* b, const Matrix& in_b, MPI_Comm comm) {
  const CopyArguments call{routine.elem, routine.letter, m, n, side_of(in_a), side_of(in_b)};
  Result<PlanCache*> cache = PlanCache::of(comm, machine());
  if (!cache.is_ok()) fail(cache.status(), comm);
  const Result<Outcome> outcome = (*cache)->run(call, a, b);
  if (!outcome.is_ok()) fail(outcome.status(), comm);
  return *outcome == Outcome::kDone;
}

template <typename Function>
Function* real(Routine routine, const char* suffix) {
  const std::string name = concat("Cp", std::string(1, routine.letter), suffix);
  void* const found = find_real(name, *machine().settings);
  if (found == nullptr) {
    abort_program(concat(name,
                         ": there is no such routine behind libweir_scalapack: link ScaLAPACK after it, or name the "
                         "library in WEIR_SCALAPACK_LIBRARY"),
                  MPI_COMM_WORLD);
  }
  return reinterpret_cast<Function*>(found);
}

using Real = void(int, int, const void*, int, int, const int*, void*, int, int, const int*, int);
using RealAmongAll = void(int, int, const void*, int, int, const int*, void*, int, int, const int*);

}  // namespace

void redistribute(Routine routine, int m, int n, const void* a, const Matrix& in_a, void* b, const Matrix& in_b,
                  int context) {
  if (m == 0 || n == 0) return;  // ScaLAPACK does not even communicate then, and programs may rely on it
  if (!is_off()) {
    if (blacs().position(context).my_row < 0) {
      abort_program(concat("p", std::string(1, routine.letter), "gemr2d: this process is not in the context ", context,
                           " of the call: only processes of that context may call"),
                    MPI_COMM_WORLD);
    }
    if (run(routine, m, n, a, in_a, b, in_b, blacs().communicator(context))) return;
  }
  real<Real>(routine, "gemr2d")(m, n, a, in_a.first_row, in_a.first_column, in_a.descriptor, b, in_b.first_row,
                                in_b.first_column, in_b.descriptor, context);
}

void redistribute_among_all(Routine routine, int m, int n, const void* a, const Matrix& in_a, void* b,
                            const Matrix& in_b) {
  if (m == 0 || n == 0) return;
  if (!is_off() && run(routine, m, n, a, in_a, b, in_b, blacs().everyone())) return;
  real<RealAmongAll>(routine, "gemr2do")(m, n, a, in_a.first_row, in_a.first_column, in_a.descriptor, b, in_b.first_row,
                                         in_b.first_column, in_b.descriptor);
}

}  // namespace weir::scalapack::internal
