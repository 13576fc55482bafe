#include <weir/layout/internal/rewrite.h>

#include <algorithm>

namespace weir::layout::internal {

void shift(FallsSet& set, Offset by) noexcept {
  for (Falls& falls : set) {
    falls.left += by;
    falls.right += by;
  }
}

void tighten(Falls& falls) noexcept {
  if (falls.is_leaf()) return;
  Offset first = kMaxBytes;
  for (const Falls& child : falls.inner) first = std::min(first, child.left);
  shift(falls.inner, -first);
  falls.left += first;
  falls.right = falls.left + extent(falls.inner) - 1;
}

}  // namespace weir::layout::internal
