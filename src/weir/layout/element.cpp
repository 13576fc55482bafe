#include <weir/layout/element.h>

#include <algorithm>

#include <weir/layout/internal/duplicate.h>
#include <weir/layout/internal/rewrite.h>
#include <weir/layout/internal/tree.h>

namespace weir::layout {

namespace {

using internal::Tree;
using internal::Trees;

std::shared_ptr<const Trees> empty_trees() {
  static const auto trees = [] {
    auto made = std::make_shared<Trees>();
    made->spatial = std::make_shared<const Tree>();
    return std::shared_ptr<const Trees>(std::move(made));
  }();
  return trees;
}

// d + k*period + x if that is a file offset.
std::optional<Offset> file_offset(const Trees& trees, Offset period, Offset x) noexcept {
  Offset at;
  if (__builtin_mul_overflow(period, trees.period, &at) || __builtin_add_overflow(at, trees.disp + x, &at)) {
    return std::nullopt;
  }
  return at < kMaxBytes ? std::optional(at) : std::nullopt;
}

}  // namespace

Element::Element() : trees_(empty_trees()) {}

Result<Element> Element::create(FallsSet set, Placement placement) {
  WEIR_RETURN_IF_ERROR(check(set));
  auto trees = std::make_shared<Trees>();
  const Offset end = extent(set);
  trees->falls = std::move(set);
  trees->simpler = internal::simpler(trees->falls);
  trees->disp = placement.disp;
  trees->period = placement.period != 0 ? placement.period : std::max<Offset>(end, 1);
  trees->size = layout::size(trees->simplified());
  if (placement.disp < 0 || placement.period < 0) {
    return invalid_argument(
        concat("element: displacement ", placement.disp, " or period ", placement.period, " is negative"));
  }
  if (end > trees->period) {
    return invalid_argument(concat("element: byte ", end - 1, " lies beyond the period of ", trees->period, " bytes"));
  }
  if (placement.disp > kMaxBytes - trees->period) {
    return out_of_range(concat("element: displacement ", placement.disp, " + period ", trees->period,
                               " leaves the range of file offsets (2^62 bytes)"));
  }
  trees->monotone = internal::is_monotone(trees->simplified());
  trees->endless = trees->monotone && trees->size == trees->period;
  Tree sequence = internal::make_sequence(trees->simplified());
  if (trees->monotone) {  // no byte can occur twice, and one form serves for both
    trees->spatial = std::make_shared<const Tree>(std::move(sequence));
    return Element(std::move(trees));
  }
  trees->sequence = std::move(sequence);
  WEIR_TRY(internal::Spatial spatial, internal::make_spatial(trees->simplified()));
  WEIR_TRY(const auto duplicate, internal::first_duplicate(spatial));
  if (duplicate) {
    return invalid_argument(concat("element: byte ", placement.disp + *duplicate, " of the file occurs twice"),
                            placement.disp + *duplicate);
  }
  trees->spatial = std::make_shared<const Tree>(std::move(spatial.tree));
  return Element(std::move(trees));
}

Offset Element::disp() const noexcept { return trees_->disp; }
Offset Element::period() const noexcept { return trees_->period; }
Offset Element::size() const noexcept { return trees_->size; }
const FallsSet& Element::falls() const noexcept { return trees_->falls; }
bool Element::is_monotone() const noexcept { return trees_->monotone; }
bool Element::is_endless() const noexcept { return trees_->endless; }

Offset Element::limit() const noexcept { return count_below(kMaxBytes); }

std::optional<Offset> Element::map(Offset x) const noexcept {
  const Trees& trees = *trees_;
  if (x < trees.disp || x >= kMaxBytes || trees.size == 0) return std::nullopt;
  const Offset period = (x - trees.disp) / trees.period;
  const auto y = internal::find(*trees.spatial, 0, trees.spatial->root_count, x - trees.disp - period * trees.period);
  return y ? std::optional(period * trees.size + *y) : std::nullopt;
}

std::optional<Offset> Element::map_next(Offset x) const noexcept {
  const Trees& trees = *trees_;
  if (trees.size == 0 || x >= kMaxBytes) return std::nullopt;
  x = std::max(x, trees.disp);
  Offset period = (x - trees.disp) / trees.period;
  const std::uint32_t roots = trees.spatial->root_count;
  auto place = internal::find_next(*trees.spatial, 0, roots, x - trees.disp - period * trees.period);
  if (!place) {
    ++period;
    place = internal::find_next(*trees.spatial, 0, roots, 0);
  }
  if (!file_offset(trees, period, place->x)) return std::nullopt;
  return period * trees.size + place->y;
}

std::optional<Offset> Element::map_previous(Offset x) const noexcept {
  const Trees& trees = *trees_;
  if (trees.size == 0 || x < trees.disp) return std::nullopt;
  x = std::min(x, kMaxBytes - 1);
  Offset period = (x - trees.disp) / trees.period;
  const std::uint32_t roots = trees.spatial->root_count;
  auto place = internal::find_previous(*trees.spatial, 0, roots, x - trees.disp - period * trees.period);
  if (!place) {
    if (period-- == 0) return std::nullopt;
    place = internal::find_previous(*trees.spatial, 0, roots, trees.period - 1);
  }
  return period * trees.size + place->y;
}

std::optional<Offset> Element::unmap(Offset y) const noexcept {
  const Trees& trees = *trees_;
  if (y < 0 || trees.size == 0) return std::nullopt;
  const Offset period = y / trees.size;
  return file_offset(trees, period, internal::locate(trees.by_element(), y - period * trees.size).x);
}

Segment Element::segment_at(Offset y, Offset most) const noexcept {
  const Trees& trees = *trees_;
  Segment segment;
  Offset at = y;
  while (at >= 0 && trees.size > 0 && segment.length < most) {
    const Offset period = at / trees.size;
    const auto located = internal::locate(trees.by_element(), at - period * trees.size);
    const auto x = file_offset(trees, period, located.x);
    if (!x || (segment.length > 0 && *x != segment.end())) break;
    if (segment.length == 0) segment.offset = *x;
    const Offset run = trees.endless ? kMaxBytes : located.rest;
    const Offset room = std::min(most - segment.length, kMaxBytes - *x);
    segment.length += std::min(run, room);
    if (run >= room) break;
    at += run;
  }
  return segment;
}

Offset Element::count_below(Offset x) const noexcept {
  const Trees& trees = *trees_;
  if (x <= trees.disp || trees.size == 0) return 0;
  x = std::min(x, kMaxBytes);
  const Offset period = (x - trees.disp) / trees.period;
  return period * trees.size +
         internal::count_below(*trees.spatial, 0, trees.spatial->root_count, x - trees.disp - period * trees.period);
}

bool Element::is_contiguous(Offset from, Offset to) const noexcept {
  return from >= to || segment_at(from, to - from).length == to - from;
}

bool Element::covers(Offset x, Offset x_end) const noexcept {
  return x >= x_end || count_below(x_end) - count_below(x) == x_end - x;
}

std::optional<Offset> map_between(const Element& a, Offset y, const Element& b) noexcept {
  const auto x = a.unmap(y);
  return x ? b.map(*x) : std::nullopt;
}

std::optional<Segment> SegmentCursor::next() noexcept {
  if (at_ >= to_) return std::nullopt;
  const Segment segment = element_.segment_at(at_, to_ - at_);
  if (segment.length == 0) return std::nullopt;
  at_ += segment.length;
  return segment;
}

}  // namespace weir::layout
