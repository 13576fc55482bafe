#pragma once

#include <weir/model/machine.h>

namespace weir::model::internal {

/// Cache lines (pages) that a piece of `length` bytes brings in where pieces are `stride` bytes apart: shared by
/// neighbours if the gaps are shorter than a line, otherwise the mean over all positions that the stride leads to.
double units_per_piece(double length, double stride, Offset unit) noexcept;

/// One piece on one side, term by term, in seconds.
struct PieceCost {
  double copy = 0;
  double lines = 0;
  double pages = 0;
  double factor = 1;  ///< From the table of corrections.
  [[nodiscard]] double formula() const noexcept { return copy + lines + pages; }
  [[nodiscard]] double seconds() const noexcept { return formula() * factor; }
};

struct PieceShape {
  double length = 0;
  double stride = 0;
};

PieceCost formula_cost(const Regime& regime, const PieceShape& shape, const Machine& machine) noexcept;

/// In between the regimes: interpolated in the logarithms.
PieceCost piece_cost(const CopyModel& model, const PieceShape& shape, double working_set,
                     const Machine& machine) noexcept;

/// `share` of the one and the rest of the other.
PieceCost blend(const PieceCost& rest, const PieceCost& cost, double share) noexcept;

}  // namespace weir::model::internal
