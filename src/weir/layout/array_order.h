#pragma once

#include <weir/layout/partition.h>

namespace weir::layout {

/// The same distribution of the same array over a file that holds the array in C order.
///
/// An hpf in Fortran order becomes explicit elements that keep their own order, first index fastest, at the places that
/// their entries have in C order: intersected with an hpf in C order, entry (i, j) meets entry (i, j), so the map
/// between the two is a transpose of local arrays.  A partition without an array, or in C order already, is returned as
/// it is.
/// \error kInvalidArgument for tiles in Fortran order; kTooComplex if there are very many elements
Result<Partition> in_c_order(const Partition& partition);

}  // namespace weir::layout
