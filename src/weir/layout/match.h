#pragma once

#include <weir/layout/partition.h>

namespace weir::layout {

/// How well a view fits a layout, and what that is made of.
///
/// Looked at is one common period of both, from the first whole period of the view that lies behind both displacements,
/// as if it went on for ever: the last byte has a successor too.  docs/algebra.md says why the degree is made like
/// this.
struct Match {
  double degree = 1;     ///< 1 / (1 + kBreakBytes * breaks / bytes + (targets - 1) / subfiles)
  Offset bytes = 0;      ///< Of the view in what was looked at.
  Offset breaks = 0;     ///< Bytes whose successor in the view is not their successor in the same subfile.
  Offset targets = 0;    ///< Subfiles that the view touches.
  bool is_exact = true;  ///< False: breaks were counted in the first part of the period only, which holds very many.
};

/// A break costs about as much as moving this many bytes.
inline constexpr Offset kBreakBytes = 4096;

/// An empty view has degree 1.  View bytes below the displacement of the layout, which no subfile holds, count as one
/// more target and one more break.
/// \error what Partition::element says.
Result<Match> match(const Element& view, const Partition& layout);

}  // namespace weir::layout
