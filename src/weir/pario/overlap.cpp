#include <weir/pario/overlap.h>

#include <algorithm>

#include <weir/base/text.h>

namespace weir::pario {

namespace {

using layout::Segment;

constexpr std::size_t kMostPieces = std::size_t{1} << 20;

// False if there are too many.
bool list_pieces(const layout::FallsSet& set, Offset base, std::vector<Segment>& pieces) {
  for (const layout::Falls& falls : set) {
    for (Offset i = 0; i < falls.count; ++i) {
      const Offset at = base + falls.left + i * falls.stride;
      if (!falls.is_leaf()) {
        if (!list_pieces(falls.inner, at, pieces)) return false;
        continue;
      }
      if (pieces.size() == kMostPieces) return false;
      pieces.push_back({at, falls.block_length()});
    }
  }
  return true;
}

}  // namespace

Result<OverlappingView> OverlappingView::create(Offset disp, const layout::FallsSet& falls, Offset extent) {
  OverlappingView view;
  view.disp_ = disp;
  view.extent_ = extent;
  if (!list_pieces(falls, 0, view.pieces_)) {
    return too_complex(concat("file view: it shows bytes twice and has more than ", kMostPieces, " pieces"));
  }
  const auto is_before = [](const Segment& x, const Segment& y) { return x.offset < y.offset; };
  if (!std::is_sorted(view.pieces_.begin(), view.pieces_.end(), is_before)) {
    return invalid_argument("file view: displacements decrease; they must be in ascending order");
  }
  view.starts_.push_back(0);
  for (const Segment& piece : view.pieces_) {
    view.starts_.push_back(view.starts_.back() + piece.length);
    view.top_ = std::max(view.top_, piece.end());
  }
  return view;
}

std::optional<Offset> OverlappingView::unmap(Offset y) const {
  const auto found = pieces(y, 1);
  if (!found.is_ok()) return std::nullopt;
  return found->front().offset;
}

Offset OverlappingView::count_below(Offset x) const {
  // All bytes of earlier items are below.
  const Offset item = x < disp_ + top_ ? 0 : (x - disp_ - top_) / extent_ + 1;
  const Offset at = x - disp_ - item * extent_;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (pieces_[i].end() > at) return item * item_bytes() + starts_[i] + std::max<Offset>(at - pieces_[i].offset, 0);
  }
  return (item + 1) * item_bytes();
}

Result<std::vector<Segment>> OverlappingView::pieces(Offset from, Offset bytes) const {
  if (from < 0 || bytes < 1) return out_of_range(concat("file view: ", bytes, " bytes at ", from));
  WEIR_TRY(const Offset to, checked_add(from, bytes));
  WEIR_TRY(const Offset last, checked_mul((to - 1) / item_bytes(), extent_));
  WEIR_TRY(const Offset end, checked_add(disp_ + top_, last));
  if (end > kMaxBytes) return out_of_range(concat("file view: byte ", to - 1, " lies beyond the largest file"));
  std::vector<Segment> found;
  Offset item = from / item_bytes();
  auto start = std::upper_bound(starts_.begin(), starts_.end(), from % item_bytes()) - 1;
  for (Offset y = from; y < to;) {
    const Segment& piece = pieces_[static_cast<std::size_t>(start - starts_.begin())];
    const Offset skipped = y - item * item_bytes() - *start;
    const Offset length = std::min(piece.length - skipped, to - y);
    found.push_back({disp_ + item * extent_ + piece.offset + skipped, length});
    y += length;
    if (++start == starts_.end() - 1) {
      start = starts_.begin();
      ++item;
    }
  }
  return found;
}

}  // namespace weir::pario
