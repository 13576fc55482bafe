#pragma once

#include <weir/layout/partition.h>

namespace weir::layout::internal {

/// What one element of a tiled array holds: its tiles one after the other, each in array order.
/// \pre Partition::create accepts `tiles`; index is in [0, over).
/// \error kTooComplex if the tiles are dealt so irregularly that the element needs more than kMaxNodes FALLS.
Result<FallsSet> tiles_of(const Tiles& tiles, Offset index);

}  // namespace weir::layout::internal
