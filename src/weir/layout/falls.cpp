#include <weir/layout/falls.h>

#include <algorithm>

#include <weir/layout/language.h>

namespace weir::layout {

namespace {

Status bad(const Falls& falls, std::string_view what) {
  return invalid_argument(
      concat("FALLS ", print(Falls{falls.left, falls.right, falls.stride, falls.count, {}}), ": ", what));
}

Status beyond(const Falls& falls) {
  return out_of_range(concat("FALLS ", print(Falls{falls.left, falls.right, falls.stride, falls.count, {}}),
                             " leaves the range of file offsets (2^62 bytes)"));
}

Status check_shape(const Falls& falls) {
  if (falls.count < 1) return bad(falls, concat("the count is ", falls.count, ", it must be at least 1"));
  if (falls.left < 0) return bad(falls, "the left end is negative");
  if (falls.right < falls.left) return bad(falls, "the right end lies before the left end");
  if (falls.right >= kMaxBytes) return beyond(falls);
  if (falls.count == 1) return Status::ok();
  if (falls.stride < 1) return bad(falls, concat("the stride is ", falls.stride, ", it must be at least 1"));
  if (falls.is_leaf() && falls.stride < falls.block_length()) {
    return invalid_argument(concat("FALLS ", print(Falls{falls.left, falls.right, falls.stride, falls.count, {}}),
                                   ": the stride ", falls.stride, " is shorter than the block of ",
                                   falls.block_length(), " bytes, so byte ", falls.left + falls.stride,
                                   " occurs twice"));
  }
  Offset span;
  if (__builtin_mul_overflow(falls.stride, falls.count - 1, &span) || span > kMaxBytes - 1 - falls.right) {
    return beyond(falls);
  }
  return Status::ok();
}

// The number of bytes, while checking: repeated bytes could make it overflow where offsets alone do not.
Result<Offset> checked_size(const FallsSet& set, Offset room, int depth) {
  if (depth > kMaxDepth) return invalid_argument(concat("FALLS are nested more than ", kMaxDepth, " deep"));
  Offset total = 0;
  for (const Falls& falls : set) {
    WEIR_RETURN_IF_ERROR(check_shape(falls));
    if (falls.right + (falls.count - 1) * (falls.count > 1 ? falls.stride : 0) >= room) {
      return bad(falls, concat("it reaches beyond the ", room, " bytes of the block that holds it"));
    }
    Offset block = falls.block_length();
    if (!falls.is_leaf()) {
      WEIR_TRY(block, checked_size(falls.inner, falls.block_length(), depth + 1));
    }
    WEIR_TRY(const Offset bytes, checked_mul(block, falls.count));
    WEIR_TRY(total, checked_add(total, bytes));
  }
  return total;
}

}  // namespace

Status check(const FallsSet& set) { return checked_size(set, kMaxBytes, 1).status(); }

Offset size(const Falls& falls) noexcept {
  return falls.count * (falls.is_leaf() ? falls.block_length() : size(falls.inner));
}

Offset size(const FallsSet& set) noexcept {
  Offset total = 0;
  for (const Falls& falls : set) total += size(falls);
  return total;
}

Offset extent(const FallsSet& set) noexcept {
  Offset end = 0;
  for (const Falls& falls : set) {
    const Offset last = falls.left + (falls.count > 1 ? (falls.count - 1) * falls.stride : 0);
    end = std::max(end, last + (falls.is_leaf() ? falls.block_length() : extent(falls.inner)));
  }
  return end;
}

Offset node_count(const FallsSet& set) noexcept {
  Offset total = 0;
  for (const Falls& falls : set) total += 1 + node_count(falls.inner);
  return total;
}

}  // namespace weir::layout
