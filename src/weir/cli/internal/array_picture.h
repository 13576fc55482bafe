#pragma once

#include <weir/cli/internal/picture.h>

namespace weir::cli::internal {

/// draw() for a partition of an array.  \pre array_shape(partition) holds a value.
Result<Picture> draw_array(const layout::Partition& partition, const PictureOptions& options);

/// Along each dimension: after how many indices the owner changes; 0 if it never does.
std::vector<Offset> owner_blocks(const layout::Partition& partition);

}  // namespace weir::cli::internal
