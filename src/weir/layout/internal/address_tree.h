#pragma once

// Trees over address spaces other than the file's, so that meet() can join on them.

#include <span>

#include <weir/layout/band.h>
#include <weir/layout/internal/meet.h>

namespace weir::layout::internal {

/// Bands as a shape: offsets of a as x, offsets of b as y.  \pre bands are made for Order::kA
Shape shape_of(std::vector<Band> bands);

/// An element seen from its own address space: element offsets as x, file offsets as y.
Shape address_shape(const Trees& trees);

}  // namespace weir::layout::internal
