#pragma once

#include <weir/layout/falls.h>

namespace weir::layout::internal {

/// `length` bytes at `at`, repeated by loops of any order.
struct Chain {
  struct Loop {
    Offset count;
    Offset step;
    friend bool operator==(const Loop&, const Loop&) = default;
  };
  Offset at;
  Offset length;
  std::vector<Loop> loops;
};

/// The union of disjoint chains as a set of FALLS, simplified.  Ascending where chains that interleave share their
/// outermost step (or one step divides the other); otherwise such chains stand one after the other.
FallsSet nest(std::vector<Chain> chains);

}  // namespace weir::layout::internal
