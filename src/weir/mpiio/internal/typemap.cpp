#include <weir/mpiio/internal/typemap.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace weir::mpiio::internal {

namespace {

using layout::Falls;
using layout::FallsSet;

constexpr Offset kMostNodes = Offset{1} << 22;     // FALLS of one datatype: some hundred megabytes
constexpr Offset kMostUnrolled = Offset{1} << 16;  // of a loop that goes backwards

bool is_segment(const Falls& falls) noexcept { return falls.count == 1 && falls.is_leaf(); }

void append_moved(FallsSet& out, const FallsSet& part, Offset by) {
  for (Falls falls : part) {
    falls.left += by;
    falls.right += by;
    layout::append_joined(out, std::move(falls));
  }
}

/// A loop around a single FALLS without a new level of nesting; false if that cannot be done.
bool loop_in_place(Falls& falls, Offset count, Offset stride) noexcept {
  if (is_segment(falls) && falls.block_length() == stride) {
    falls.right += stride * (count - 1);
    return true;
  }
  if (is_segment(falls) && stride > falls.block_length()) {
    falls.stride = stride;
    falls.count = count;
    return true;
  }
  if (falls.count > 1 && falls.stride * falls.count == stride) {
    falls.count *= count;
    return true;
  }
  return false;
}

FallsSet loop(FallsSet set, Offset block, Offset count, Offset stride) {
  if (set.size() == 1 && loop_in_place(set.front(), count, stride)) return set;
  FallsSet out(1);
  out.front() = {0, block - 1, stride, count, std::move(set)};
  return out;
}

/// The FALLS of a loop that does not go forwards.
Status unroll(const FallsSet& set, Offset count, Offset stride, FallsSet& out) {
  if (count > kMostUnrolled / layout::node_count(set)) {
    return too_complex(stride == 0 ? concat("the datatype repeats the same bytes ", count, " times (a stride of 0)")
                                   : concat("the datatype goes backwards, ", count, " times by ", -stride, " bytes"));
  }
  for (Offset i = 0; i < count; ++i) append_moved(out, set, (i - (count - 1)) * stride);
  return Status::ok();
}

}  // namespace

Typemap segment(Offset bytes) {
  Typemap map{.size = bytes, .extent = bytes, .true_extent = bytes, .falls = {}, .shape = {}};
  if (bytes > 0) map.falls.push_back({0, bytes - 1, 0, 1, {}});
  return map;
}

Result<Typemap> repeat(Typemap item, Offset count, Offset stride) {
  if (count <= 0 || (item.size == 0 && !item.has_markers)) return Typemap{};
  if (count == 1) return item;
  WEIR_TRY(const Offset span, checked_mul(stride, count - 1));
  const Offset below = std::min<Offset>(span, 0);
  WEIR_TRY(item.lower_bound, checked_add(item.lower_bound, below));
  WEIR_TRY(item.extent, checked_add(item.extent, std::abs(span)));
  if (item.size == 0) return item;
  WEIR_TRY(item.size, checked_mul(item.size, count));
  WEIR_TRY(item.origin, checked_add(item.origin, below));
  const Offset block = item.true_extent;
  WEIR_TRY(item.true_extent, checked_add(block, std::abs(span)));
  item.is_monotone = item.is_monotone && stride >= block;
  if (!item.shape.is_ok()) return item;
  if (stride > 0) {
    item.falls = loop(std::move(item.falls), block, count, stride);
  } else {
    const FallsSet once = std::exchange(item.falls, {});
    item.shape = unroll(once, count, stride, item.falls);
  }
  return item;
}

void Sequence::Hull::include(Offset from, Offset to) noexcept {
  low = std::min(low, from);
  high = std::max(high, to);
}

Status Sequence::add(const Typemap& part, Offset at) {
  if (part.size == 0 && !part.has_markers) return Status::ok();
  WEIR_TRY(const Offset lower, checked_add(at, part.lower_bound));
  WEIR_TRY(const Offset upper, checked_add(lower, part.extent));
  (part.has_markers ? markers_ : natural_).include(lower, upper);
  if (part.size == 0) return Status::ok();

  WEIR_TRY(whole_.size, checked_add(whole_.size, part.size));
  WEIR_TRY(const Offset first, checked_add(at, part.origin));
  WEIR_TRY(const Offset end, checked_add(first, part.true_extent));
  whole_.is_monotone = whole_.is_monotone && part.is_monotone && (bytes_.is_empty() || first >= bytes_.high);
  bytes_.include(first, end);
  add_falls(part, first);
  return Status::ok();
}

void Sequence::add_falls(const Typemap& part, Offset at) {
  if (!whole_.shape.is_ok()) return;
  nodes_ += layout::node_count(part.falls);
  whole_.shape = part.shape;
  if (nodes_ > kMostNodes) {
    whole_.shape = too_complex(concat("the datatype has more than ", kMostNodes, " irregular pieces"));
  }
  if (whole_.shape.is_ok()) {
    append_moved(whole_.falls, part.falls, at);
  } else {
    whole_.falls = {};
  }
}

Result<Typemap> Sequence::finish() {
  whole_.has_markers = !markers_.is_empty();
  const Hull& bounds = whole_.has_markers ? markers_ : natural_;
  if (!bounds.is_empty()) {
    whole_.lower_bound = bounds.low;
    WEIR_TRY(whole_.extent, checked_add(bounds.high, -bounds.low));
  }
  if (bytes_.is_empty()) return std::move(whole_);
  whole_.origin = bytes_.low;
  WEIR_TRY(whole_.true_extent, checked_add(bytes_.high, -bytes_.low));
  for (Falls& falls : whole_.falls) {
    falls.left -= whole_.origin;
    falls.right -= whole_.origin;
  }
  if (whole_.falls.size() > 1) whole_.falls = layout::simplify(std::move(whole_.falls));
  return std::move(whole_);
}

}  // namespace weir::mpiio::internal
