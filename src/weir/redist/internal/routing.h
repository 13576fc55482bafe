#pragma once

// From two partitions to the traffic of one rank: the algebra's part of a redistribution.

#include <vector>

#include <weir/layout/mapping.h>
#include <weir/layout/partition.h>
#include <weir/redist/internal/array_exchange.h>
#include <weir/redist/report.h>

namespace weir::redist::internal {

/// What a rank's source has in common with one element of the target.
struct Share {
  int element = 0;
  layout::Mapping mapping;  ///< a: the source element, b: the target element
};

/// Every element of `to` that rank's source element has bytes of.  Empty if it holds none.
Result<std::vector<Share>> shares_of(const layout::Partition& from, const layout::Partition& to, int rank);

/// Which rank holds which element of the target, and the other way round (-1: none).
struct Labels {
  std::vector<int> rank_of;
  std::vector<int> element_of;
};

Labels same_labels(int elements, int ranks);
Labels make_labels(std::vector<int> rank_of, int ranks);

/// Routes of one rank.  Sends start with the next rank, receives with the previous one, so that not all begin with rank
/// 0.
Result<Traffic> route(const layout::Partition& from, const layout::Partition& to, std::vector<Share> shares,
                      const Labels& labels, int rank, int ranks);

}  // namespace weir::redist::internal
