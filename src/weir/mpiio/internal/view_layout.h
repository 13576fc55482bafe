#pragma once

// weir_layout=view: a file stored as its ranks see it.

#include <weir/layout/view_layout.h>

namespace weir::mpiio::internal {

using layout::from_text;
using layout::GapStripes;
using layout::layout_of_views;
using layout::to_text;

}  // namespace weir::mpiio::internal
