#pragma once

#include <weir/layout/falls.h>

namespace weir::layout {

/// Processor-indexed tagged families (PITFALLS): one description of what every process of a grid holds.
///
/// One level per array dimension, outermost in the file first.  A level deals `extent` indices in blocks of `block`
/// indices to `processes` processes in turn: in the literature's (l, r, s, n, d, p) the process with coordinate c holds
/// the family (c*d, c*d + block-1, s, n) with d = block, s = block*processes, cut off at the extent.  The innermost
/// index is one array element of `elem` bytes.
struct Pitfalls {
  struct Level {
    Offset extent = 1;
    Offset block = 1;
    Offset processes = 1;
    /// File bytes from one index to the next; 0: all of the next level, as in a file that has the levels in this order.
    Offset unit = 0;
  };

  std::vector<Level> levels;
  Offset elem = 1;

  /// Bytes of the whole array.  \error kOutOfRange beyond 2^62.
  [[nodiscard]] Result<Offset> bytes() const;

  /// What the process with these coordinates (one per level, same order) holds, last level fastest; computed for it
  /// alone.
  /// \pre bytes() is ok, coordinates are in range.
  [[nodiscard]] FallsSet evaluate(const std::vector<Offset>& coordinates) const;
};

}  // namespace weir::layout
