#pragma once

#include <weir/layout/falls.h>

namespace weir::layout::internal {

/// Moves a set by `by` bytes.
void shift(FallsSet& set, Offset by) noexcept;

/// Shrinks a nested block to the bytes that its inner set has: the first inner byte is at the block's left end, the
/// last at its right end if inner blocks are tight themselves.
void tighten(Falls& falls) noexcept;

/// As simplify(); empty if that would change nothing.
FallsSet simpler(const FallsSet& set);

}  // namespace weir::layout::internal
