#include <weir/transfer/internal/nested_bands.h>

#include <algorithm>

#include <weir/base/text.h>
#include <weir/layout/band.h>

namespace weir::transfer::internal {

namespace {

using layout::Element;
using layout::Falls;
using layout::Loop;
using layout::Order;

// The innermost loop whose turns reach into each other in a; loops.size() if the band is nested.
std::size_t first_overlap(const layout::Band& band) {
  Offset extent = band.piece.length;
  for (std::size_t i = band.loops.size(); i-- > 0;) {
    if (band.loops[i].a < extent) return i;
    extent += (band.loops[i].count - 1) * band.loops[i].a;
  }
  return band.loops.size();
}

// Unrolls the shortest loop that takes part in an overlap, until what is left is nested.
Status append_nested(layout::Band band, std::vector<layout::Band>& out) {
  const std::size_t overlap = first_overlap(band);
  if (overlap == band.loops.size()) {
    if (out.size() == kMostBands) {
      return too_complex(concat("pack: the mapping has more than ", kMostBands, " bands; take a window of it"));
    }
    out.push_back(std::move(band));
    return Status::ok();
  }
  const auto shortest = std::min_element(band.loops.begin() + static_cast<std::ptrdiff_t>(overlap), band.loops.end(),
                                         [](const Loop& x, const Loop& y) { return x.count < y.count; });
  const Loop unrolled = *shortest;
  band.loops.erase(shortest);
  for (Offset turn = 0; turn < unrolled.count; ++turn) {
    WEIR_RETURN_IF_ERROR(append_nested(band, out));
    layout::move(band.piece, unrolled, 1);
  }
  return Status::ok();
}

// Elements whose order is not that of the file reach a little beyond 2^62 in their own offsets when the file ends
// there: the outermost turns that do so hold no byte that a file can have.
void clip(layout::Band& band) {
  for (const Order order : {Order::kA, Order::kB}) {
    Offset room = kMaxBytes - layout::key_of(band.piece, order);
    if (band.loops.empty()) {
      band.piece.length = std::min(band.piece.length, room);
      continue;
    }
    room -= band.piece.length;
    for (std::size_t i = 1; i < band.loops.size(); ++i) {
      room -= (band.loops[i].count - 1) * layout::step_of(band.loops[i], order);
    }
    Loop& outermost = band.loops.front();
    outermost.count = std::min(outermost.count, std::max<Offset>(room, 0) / layout::step_of(outermost, order) + 1);
  }
}

// The sequence of a band in one of its address spaces: a nest of FALLS in the order of the loops.
Result<Element> sequence_of(const layout::Band& band, Order order) {
  Falls falls{0, band.piece.length - 1, 0, 1, {}};
  Offset extent = band.piece.length;
  for (auto loop = band.loops.rbegin(); loop != band.loops.rend(); ++loop) {
    const Offset step = layout::step_of(*loop, order);
    if (falls.is_leaf() && falls.count == 1 && step >= extent) {
      falls = {0, extent - 1, step, loop->count, {}};
    } else {
      falls = {0, extent - 1, step, loop->count, {std::move(falls)}};
    }
    extent += (loop->count - 1) * step;
  }
  const Offset at = layout::key_of(band.piece, order);
  falls.left += at;
  falls.right += at;
  // No repetition: the loops go as far as there are offsets.
  return Element::create({std::move(falls)}, {.disp = 0, .period = kMaxBytes});
}

}  // namespace

Result<std::vector<Route::Band>> nested_bands_of(const layout::Mapping& a_to_b) {
  std::vector<layout::Band> nested;
  for (layout::Band& band :
       a_to_b.is_periodic() ? layout::endless_bands_of(a_to_b, Order::kA) : layout::bands_of(a_to_b, Order::kA)) {
    WEIR_RETURN_IF_ERROR(append_nested(std::move(band), nested));
  }
  std::vector<Route::Band> bands;
  for (layout::Band& band : nested) {
    clip(band);
    WEIR_TRY(Element a, sequence_of(band, Order::kA));
    WEIR_TRY(Element b, sequence_of(band, Order::kB));
    bands.push_back({std::move(a), std::move(b)});
  }
  return bands;
}

}  // namespace weir::transfer::internal
