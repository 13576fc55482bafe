#include <weir/transfer/range_packing.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include <weir/layout/band.h>

namespace weir::transfer {

namespace {

using layout::Element;
using layout::Falls;
using layout::FallsSet;
using layout::Loop;
using layout::Mapping;
using layout::Order;
using layout::Segment;

// A server keeps them all for every view: a pattern that falls apart into more of them is better worked on window by
// window.
constexpr std::size_t kMostBands = 1024;

// ---------------------------------------------------------------- bands of a mapping

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

// ---------------------------------------------------------------- moving bytes of one sequence

Offset least(const FallsSet& set) {
  Offset from = kMaxBytes;
  for (const Falls& falls : set) from = std::min(from, falls.left + (falls.is_leaf() ? 0 : least(falls.inner)));
  return from;
}

// The smallest range that holds items [k.from, k.to) of the sequence, which are some.
Range hull_of(const Element& sequence, Range k) {
  if (sequence.is_monotone()) return {*sequence.unmap(k.from), *sequence.unmap(k.to - 1) + 1};
  const Offset size = sequence.size();
  const Offset turn = k.from / size;
  const Offset shift = sequence.disp() + turn * sequence.period();
  if (k.to <= (turn + 1) * size) {
    const FallsSet part = layout::subsequence(sequence.falls(), k.from - turn * size, k.to - turn * size);
    return {shift + least(part), shift + layout::extent(part)};
  }
  const Offset last =
      (k.to - 1) / size;  // over the end of a period: whole ones, which is at most too much by one at either end
  return {shift + least(sequence.falls()),
          sequence.disp() + last * sequence.period() + layout::extent(sequence.falls())};
}

void gather(const Element& sequence, const std::optional<Plan>& plan, Source from, Range k, std::byte* message) {
  if (plan) return plan->run(from, {message, k.from}, k);
  layout::SegmentCursor cursor(sequence, k.from, k.to);
  while (const auto segment = cursor.next()) {
    const auto length = static_cast<std::size_t>(segment->length);
    std::memcpy(message, static_cast<const std::byte*>(from.data) + (segment->offset - from.origin), length);
    message += length;
  }
}

void scatter(const Element& sequence, const std::optional<Plan>& plan, const std::byte* message, Range k, Target to) {
  if (plan) return plan->run({message, k.from}, to, k);
  layout::SegmentCursor cursor(sequence, k.from, k.to);
  while (const auto segment = cursor.next()) {
    const auto length = static_cast<std::size_t>(segment->length);
    std::memcpy(static_cast<std::byte*>(to.data) + (segment->offset - to.origin), message, length);
    message += length;
  }
}

// Compiled when first used: a server never needs the plans of a, a client never those of b, and most views only read or
// only write.
class LazyPlan {
 public:
  using Compile = Result<Plan> (*)(const Element&, const layout::Budget&);

  // Nothing if the sequence is too complex for a plan; it is then walked segment by segment.
  const std::optional<Plan>& get(const Element& sequence, Compile compile) {
    std::call_once(once_, [&] {
      if (Result<Plan> plan = compile(sequence, {}); plan.is_ok()) plan_ = std::move(plan).value();
    });
    return plan_;
  }

 private:
  std::once_flag once_;
  std::optional<Plan> plan_;
};

}  // namespace

struct RangePacking::Side {
  struct Plans {
    LazyPlan gather_a;
    LazyPlan scatter_a;
    LazyPlan gather_b;
    LazyPlan scatter_b;
  };
  std::shared_ptr<Plans> plans = std::make_shared<Plans>();
};

namespace {

// The items of a band's sequences that a range of a holds.
Range items_of(const RangePacking::Band& band, Range range) {
  const Offset from = band.a.count_below(range.from);  // which knows where files begin and end
  return {from, std::max(from, band.a.count_below(range.to))};
}

// Calls `visit(index, band, items)` for the bands that have bytes in the range.
template <typename Visit>
void for_each(const std::vector<RangePacking::Band>& bands, Range range, Visit visit) {
  if (range.from >= range.to) return;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    const Range items = items_of(bands[i], range);
    if (items.from < items.to) visit(i, bands[i], items);
  }
}

std::optional<Offset> direct(const std::vector<RangePacking::Band>& bands, Element RangePacking::Band::*side,
                             Range range) {
  std::optional<Offset> start;
  Offset next = 0;
  bool is_direct = true;
  for_each(bands, range, [&](std::size_t, const RangePacking::Band& band, Range items) {
    if (!is_direct) return;
    const Element& sequence = band.*side;
    const Offset at = *sequence.unmap(items.from);
    is_direct = (!start || at == next) && sequence.is_contiguous(items.from, items.to);
    if (!start) start = at;
    next = at + (items.to - items.from);
  });
  return is_direct ? start : std::nullopt;
}

}  // namespace

RangePacking::RangePacking() = default;
RangePacking::RangePacking(const RangePacking&) = default;
RangePacking::RangePacking(RangePacking&&) noexcept = default;
RangePacking& RangePacking::operator=(const RangePacking&) = default;
RangePacking& RangePacking::operator=(RangePacking&&) noexcept = default;
RangePacking::~RangePacking() = default;

Result<RangePacking> RangePacking::create(const Mapping& a_to_b) {
  std::vector<layout::Band> nested;
  for (layout::Band& band :
       a_to_b.is_periodic() ? layout::endless_bands_of(a_to_b, Order::kA) : layout::bands_of(a_to_b, Order::kA)) {
    WEIR_RETURN_IF_ERROR(append_nested(std::move(band), nested));
  }
  RangePacking packing;
  for (layout::Band& band : nested) {
    clip(band);
    WEIR_TRY(Element a, sequence_of(band, Order::kA));
    WEIR_TRY(Element b, sequence_of(band, Order::kB));
    packing.bands_.push_back({std::move(a), std::move(b)});
  }
  packing.sides_.resize(packing.bands_.size());
  return packing;
}

Result<RangePacking> RangePacking::create(std::vector<Band> bands) {
  if (bands.size() > kMostBands) {
    return invalid_argument(concat("pack: ", bands.size(), " bands; at most ", kMostBands, " make one view"));
  }
  for (std::size_t i = 0; i < bands.size(); ++i) {
    const Band& band = bands[i];
    if (band.a.size() != band.b.size() || band.a.is_empty()) {
      return invalid_argument(
          concat("pack: band ", i, " has ", band.a.size(), " bytes on one side and ", band.b.size(), " on the other"));
    }
    if (!band.a.is_monotone()) return invalid_argument(concat("pack: band ", i, " does not ascend in the view"));
    // Every item that a range of a can ask for has a place in b.
    if (band.b.limit() < band.a.limit()) {
      return invalid_argument(concat("pack: band ", i, " goes beyond the last offset of the subfile"));
    }
  }
  RangePacking packing;
  packing.bands_ = std::move(bands);
  packing.sides_.resize(packing.bands_.size());
  return packing;
}

const std::vector<RangePacking::Band>& RangePacking::bands() const { return bands_; }

Offset RangePacking::bytes(Range range) const {
  Offset bytes = 0;
  for_each(bands_, range, [&](std::size_t, const Band&, Range items) { bytes += items.to - items.from; });
  return bytes;
}

Range RangePacking::extent_b(Range range) const {
  Range extent{kMaxBytes, 0};
  for_each(bands_, range, [&](std::size_t, const Band& band, Range items) {
    const Range hull = hull_of(band.b, items);
    extent = {std::min(extent.from, hull.from), std::max(extent.to, hull.to)};
  });
  return extent.from < extent.to ? extent : Range{0, 0};
}

std::optional<Offset> RangePacking::direct_a(Range range) const { return direct(bands_, &Band::a, range); }
std::optional<Offset> RangePacking::direct_b(Range range) const { return direct(bands_, &Band::b, range); }

void RangePacking::pack_a(Source a, Range range, std::byte* message) const {
  for_each(bands_, range, [&](std::size_t i, const Band& band, Range items) {
    gather(band.a, sides_[i].plans->gather_a.get(band.a, &Plan::gather), a, items, message);
    message += items.to - items.from;
  });
}

void RangePacking::unpack_a(const std::byte* message, Range range, Target a) const {
  for_each(bands_, range, [&](std::size_t i, const Band& band, Range items) {
    scatter(band.a, sides_[i].plans->scatter_a.get(band.a, &Plan::scatter), message, items, a);
    message += items.to - items.from;
  });
}

void RangePacking::pack_b(Source b, Range range, std::byte* message) const {
  for_each(bands_, range, [&](std::size_t i, const Band& band, Range items) {
    gather(band.b, sides_[i].plans->gather_b.get(band.b, &Plan::gather), b, items, message);
    message += items.to - items.from;
  });
}

void RangePacking::unpack_b(const std::byte* message, Range range, Target b) const {
  for_each(bands_, range, [&](std::size_t i, const Band& band, Range items) {
    scatter(band.b, sides_[i].plans->scatter_b.get(band.b, &Plan::scatter), message, items, b);
    message += items.to - items.from;
  });
}

}  // namespace weir::transfer
