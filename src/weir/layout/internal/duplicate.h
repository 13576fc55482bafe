#pragma once

#include <weir/layout/internal/meet.h>
#include <weir/layout/internal/tree.h>

namespace weir::layout::internal {

/// The lowest byte of the pattern that occurs more than once; nothing if every byte occurs once.
/// \error kTooComplex if that cannot be told in bounded time
Result<std::optional<Offset>> first_duplicate(const Spatial& spatial);

/// The lowest file byte below `to` that both shapes hold; nothing if there is none.
/// \error as above
Result<std::optional<Offset>> first_common(const Shape& a, const Shape& b, Offset to);

}  // namespace weir::layout::internal
