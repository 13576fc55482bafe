#pragma once

// The arguments of a call of p?gemr2d, as processes tell each other.

#include <array>
#include <span>
#include <type_traits>

#include <weir/base/checked.h>
#include <weir/scalapack/internal/dealing.h>

namespace weir::scalapack::internal {

/// What a process says about one of the matrices.  All zero, and coordinates -1, where it is not in the matrix's
/// context.
struct Side {
  std::int32_t rows = 0;  ///< Of the whole matrix: M_, N_ of the descriptor.
  std::int32_t columns = 0;
  std::int32_t row_block = 0;  ///< MB_, NB_
  std::int32_t column_block = 0;
  std::int32_t row_source = 0;  ///< RSRC_, CSRC_
  std::int32_t column_source = 0;
  std::int32_t first_row = 0;  ///< From 1, as the caller says it.
  std::int32_t first_column = 0;
  std::int32_t grid_rows = 0;
  std::int32_t grid_columns = 0;
  // These differ between processes.
  std::int32_t leading_dimension = 0;  ///< LLD_
  std::int32_t my_row = -1;
  std::int32_t my_column = -1;

  [[nodiscard]] bool is_member() const { return my_row >= 0; }
  friend bool operator==(const Side&, const Side&) = default;
};

struct CopyArguments {
  std::int32_t elem = 0;  ///< Bytes of a number.
  std::int32_t type = 0;  ///< The letter of the routine: 'd' of pdgemr2d.
  std::int32_t m = 0;
  std::int32_t n = 0;
  Side a;
  Side b;
  friend bool operator==(const CopyArguments&, const CopyArguments&) = default;
};

static_assert(std::is_trivially_copyable_v<CopyArguments> && sizeof(CopyArguments) == 30 * sizeof(std::int32_t),
              "processes send it as it is");

/// What is wrong with the calls of all processes together; `ranks` are the numbers by which messages name them.
/// \error kInvalidArgument names ranks and values.
Status check(std::span<const CopyArguments> calls, std::span<const int> ranks);

/// The side as some process of its grid knows it.  \pre check() was ok
const Side& known(std::span<const CopyArguments> calls, Side CopyArguments::*side);

/// \pre `side` passed check()
Dealing rows_of(const Side& side, std::int32_t m);
Dealing columns_of(const Side& side, std::int32_t n);

}  // namespace weir::scalapack::internal
