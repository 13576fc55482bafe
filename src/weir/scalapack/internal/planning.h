#pragma once

#include <span>

#include <weir/scalapack/internal/copy_arguments.h>
#include <weir/scalapack/internal/matrix_exchange.h>

namespace weir::scalapack::internal {

/// A range of a local array, in bytes.
struct Touched {
  Offset from = 0;
  Offset to = 0;
};

/// What one process does in a call, for any local arrays.
struct Work {
  Traffic traffic;
  Touched a;  ///< From the first to the last byte that is read.
  Touched b;  ///< ... and written.
};

/// What process `me` (an index into `calls`) sends, receives and copies.
/// \pre check(calls) was ok.
/// \error kTooComplex, kOutOfRange if the patterns are beyond the algebra.
Result<Work> plan(std::span<const CopyArguments> calls, int me);

}  // namespace weir::scalapack::internal
