#pragma once

#include <span>
#include <vector>

#include <weir/redist/report.h>

namespace weir::redist::internal {

/// Which rank holds which element of the target so that many bytes stay where they are.
///
/// Greedy: the largest flows first, each keeping its bytes at home if rank and element are both still free; ties go to
/// the rank with the element's own number.  That keeps at least half of what the best assignment keeps, and it is never
/// worse than no relabelling: if it would be, element i stays with rank i.
///
/// `flows` are from ranks to elements.  \returns for each element its rank.  \pre elements <= ranks
std::vector<int> relabel(std::span<const Flow> flows, int elements, int ranks);

/// Bytes that stay on their rank if element i goes to rank `rank_of[i]`.
Offset local_bytes(std::span<const Flow> flows, const std::vector<int>& rank_of);

}  // namespace weir::redist::internal
