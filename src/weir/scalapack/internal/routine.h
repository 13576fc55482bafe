#pragma once

#include <cstdint>

namespace weir::scalapack::internal {

/// One matrix of a call, as the caller passes it.
struct Matrix {
  int first_row;
  int first_column;
  const int* descriptor;  ///< DTYPE_, CTXT_, M_, N_, MB_, NB_, RSRC_, CSRC_, LLD_
};

/// One member of the family.
struct Routine {
  char letter;
  int elem;
};

/// p?gemr2d.  Does not return if arguments are wrong: says what is wrong and ends the program, as ScaLAPACK does.
void redistribute(Routine routine, int m, int n, const void* a, const Matrix& in_a, void* b, const Matrix& in_b,
                  int context);

/// p?gemr2do: the context is that of all processes.
void redistribute_among_all(Routine routine, int m, int n, const void* a, const Matrix& in_a, void* b,
                            const Matrix& in_b);

}  // namespace weir::scalapack::internal
