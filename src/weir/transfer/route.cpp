#include <weir/transfer/route.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include <weir/base/text.h>
#include <weir/transfer/internal/composition.h>
#include <weir/transfer/internal/nested_bands.h>
#include <weir/transfer/internal/piece_list.h>

namespace weir::transfer {

namespace {

using internal::kMostBands;
using layout::Element;
using layout::Falls;
using layout::FallsSet;
using layout::Mapping;

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

// Compiled when first used.
class LazyPlan {
 public:
  // Nothing if the pattern is too complex for a plan.
  template <typename Compile>
  const std::optional<Plan>& get(Compile compile) {
    std::call_once(once_, [&] {
      if (Result<Plan> plan = compile(); plan.is_ok()) plan_ = std::move(plan).value();
    });
    return plan_;
  }

 private:
  std::once_flag once_;
  std::optional<Plan> plan_;
};

// Of one sequence of a band.
struct SequencePlans {
  LazyPlan gather;
  LazyPlan scatter;

  const std::optional<Plan>& gather_of(const Element& sequence) {
    return gather.get([&] { return Plan::gather(sequence); });
  }
  const std::optional<Plan>& scatter_of(const Element& sequence) {
    return scatter.get([&] { return Plan::scatter(sequence); });
  }
};

struct BandPlans {
  SequencePlans a;
  SequencePlans b;
};

// The items of a band's sequences that a range of a holds.
Range items_of(const Route::Band& band, Range range) {
  const Offset from = band.a.count_below(range.from);  // which knows where files begin and end
  return {from, std::max(from, band.a.count_below(range.to))};
}

// Calls `visit(index, band, items)` for the bands that have bytes in the range.
template <typename Visit>
void for_bands(const std::vector<Route::Band>& bands, Range range, Visit visit) {
  if (range.from >= range.to) return;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    const Range items = items_of(bands[i], range);
    if (items.from < items.to) visit(i, bands[i], items);
  }
}

std::optional<Offset> direct(const std::vector<Route::Band>& bands, Element Route::Band::*side, Range range) {
  std::optional<Offset> start;
  Offset next = 0;
  bool is_direct = true;
  for_bands(bands, range, [&](std::size_t, const Route::Band& band, Range items) {
    if (!is_direct) return;
    const Element& sequence = band.*side;
    const Offset at = *sequence.unmap(items.from);
    is_direct = (!start || at == next) && sequence.is_contiguous(items.from, items.to);
    if (!start) start = at;
    next = at + (items.to - items.from);
  });
  return is_direct ? start : std::nullopt;
}

// A shorter piece is copied before a plan has found it.
constexpr Offset kShortPiece = 4096;

// Where items begin that are one short piece.
std::optional<Offset> short_piece(const Element& sequence, Range items) {
  const Offset bytes = items.to - items.from;
  if (bytes >= kShortPiece) return std::nullopt;
  const layout::Segment piece = sequence.segment_at(items.from, bytes);
  return piece.length == bytes ? std::optional(piece.offset) : std::nullopt;
}

// How many segments [from, to) of a sequence has, by the first ones.
Offset estimate_segments(const Element& sequence, Range items) {
  constexpr int kLooks = 64;
  Offset seen = 0;
  int segments = 0;
  for (layout::SegmentCursor cursor(sequence, items.from, items.to); segments < kLooks; ++segments) {
    const auto segment = cursor.next();
    if (!segment) break;
    seen += segment->length;
  }
  return segments < kLooks ? segments : ceil_div((items.to - items.from) * kLooks, seen);
}

Range joined(Range x, Range y) {
  if (y.from >= y.to) return x;
  if (x.from >= x.to) return y;
  return {std::min(x.from, y.from), std::max(x.to, y.to)};
}

}  // namespace

struct Route::State {
  // Of between().
  Element a;
  Element b;
  std::optional<Mapping> mapping;  // nothing: listed
  LazyPlan to_b;
  LazyPlan to_a;
  internal::PieceLists lists;
  internal::Composition composition;

  std::vector<Band> bands;
  std::vector<BandPlans> plans;  // by band
  Status why_listed;

  void set_bands(std::vector<Band> those) {
    bands = std::move(those);
    plans = std::vector<BandPlans>(bands.size());
  }
};

// ---------------------------------------------------------------- making one

Route::Route() : state_(std::make_shared<State>()) {}

Result<Route> Route::between(const Element& a, const Element& b, const layout::Budget& budget) {
  auto state = std::make_shared<State>();
  if (a.is_empty() || b.is_empty()) return Route(std::move(state));
  Result<Mapping> mapping = layout::intersect(a, b, budget);
  state->why_listed = mapping.status();
  if (mapping.is_ok()) {
    Result<std::vector<Band>> bands = internal::nested_bands_of(*mapping);
    state->why_listed = bands.status();
    if (bands.is_ok()) {
      state->mapping = std::move(mapping).value();
      state->set_bands(std::move(bands).value());
    }
  }
  const Status& status = state->why_listed;
  if (!status.is_ok() && status.code() != ErrorCode::kTooComplex) return status;
  state->a = a;
  state->b = b;
  return Route(std::move(state));
}

Route Route::of(const Element& element) {
  auto state = std::make_shared<State>();
  if (element.is_empty()) return Route(std::move(state));
  // Every byte from 0 on, by a period that the element's has, too.
  auto packed = Element::create({{0, element.size() - 1, 0, 1, {}}}, {.disp = 0, .period = element.size()});
  state->set_bands({{std::move(packed).value(), element}});
  return Route(std::move(state));
}

Result<Route> Route::create(std::vector<Band> bands) {
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
  auto state = std::make_shared<State>();
  state->set_bands(std::move(bands));
  return Route(std::move(state));
}

Result<Route> Route::create(const Mapping& a_to_b) {
  auto state = std::make_shared<State>();
  WEIR_TRY(std::vector<Band> bands, internal::nested_bands_of(a_to_b));
  state->set_bands(std::move(bands));
  return Route(std::move(state));
}

bool Route::is_empty() const { return !is_listed() && state_->bands.empty(); }
bool Route::is_listed() const { return !state_->why_listed.is_ok(); }
const Status& Route::why_listed() const { return state_->why_listed; }
const std::vector<Route::Band>& Route::bands() const { return state_->bands; }

// ---------------------------------------------------------------- what a range has

// Calls `visit(step)` for all steps of a range.
template <typename Visit>
void Route::for_steps(Range range, Visit visit) const {
  while (range.from < range.to) {
    const Step next = step(range);
    visit(next);
    range.from = next.range.to;
  }
}

Offset Route::bytes(Range range) const {
  Offset bytes = 0;
  if (is_listed()) {
    for_steps(range, [&](const Step& step) { bytes += step.bytes; });
  } else {
    for_bands(state_->bands, range, [&](std::size_t, const Band&, Range items) { bytes += items.to - items.from; });
  }
  return bytes;
}

Range Route::extent_b(Range range) const {
  Range extent{0, 0};
  if (is_listed()) {
    for_steps(range, [&](const Step& step) { extent = joined(extent, step.extent_b); });
  } else {
    for_bands(state_->bands, range,
              [&](std::size_t, const Band& band, Range items) { extent = joined(extent, hull_of(band.b, items)); });
  }
  return extent;
}

std::optional<Offset> Route::direct_a(Range range) const { return direct(state_->bands, &Band::a, range); }
std::optional<Offset> Route::direct_b(Range range) const { return direct(state_->bands, &Band::b, range); }

Offset Route::estimate_pieces(Range range) const {
  if (is_listed()) return estimate_segments(state_->a, range);
  Offset pieces = 0;
  for_bands(state_->bands, range,
            [&](std::size_t, const Band& band, Range items) { pieces += estimate_segments(band.b, items); });
  return pieces;
}

layout::PieceCursor Route::pieces(Range range) const {
  return {state_->a, state_->b, layout::Order::kA, {.file = {}, .a = range, .b = {}}};
}

// ---------------------------------------------------------------- messages

void Route::pack_a(Source a, Range range, std::byte* message) const {
  if (is_listed()) {
    return for_steps(range, [&](const Step& step) {
      step.list->pack_a(static_cast<const std::byte*>(a.data) + (step.range.from - a.origin), message);
      message += step.bytes;
    });
  }
  for_bands(state_->bands, range, [&](std::size_t i, const Band& band, Range items) {
    gather(band.a, state_->plans[i].a.gather_of(band.a), a, items, message);
    message += items.to - items.from;
  });
}

void Route::unpack_a(const std::byte* message, Range range, Target a) const {
  if (is_listed()) {
    return for_steps(range, [&](const Step& step) {
      step.list->unpack_a(message, static_cast<std::byte*>(a.data) + (step.range.from - a.origin));
      message += step.bytes;
    });
  }
  for_bands(state_->bands, range, [&](std::size_t i, const Band& band, Range items) {
    scatter(band.a, state_->plans[i].a.scatter_of(band.a), message, items, a);
    message += items.to - items.from;
  });
}

// Calls `move(index, band, items, offset in the message)` for the bands that have bytes in the part.
template <typename Move>
void Route::move_bands(Range part, Range whole, Move move) const {
  if (part.from >= part.to) return;
  Offset start = 0;
  for (std::size_t i = 0; i < state_->bands.size(); ++i) {
    const Band& band = state_->bands[i];
    const Range all = items_of(band, whole);
    const Range items = part.from == whole.from && part.to == whole.to ? all : items_of(band, part);
    if (items.from < items.to) move(i, band, items, start + items.from - all.from);
    start += all.to - all.from;
  }
}

void Route::pack_b(Source b, Range part, std::byte* message, Range whole) const {
  move_bands(part, whole, [&](std::size_t i, const Band& band, Range items, Offset at) {
    gather(band.b, state_->plans[i].b.gather_of(band.b), b, items, message + at);
  });
}

void Route::unpack_b(const std::byte* message, Range part, Target b, Range whole) const {
  move_bands(part, whole, [&](std::size_t i, const Band& band, Range items, Offset at) {
    scatter(band.b, state_->plans[i].b.scatter_of(band.b), message + at, items, b);
  });
}

std::optional<Route::MessagePiece> Route::MessageCursor::next() {
  for (;;) {
    if (segments_) {
      if (const auto segment = segments_->next()) {
        const MessagePiece piece{segment->offset, segment->length, at_};
        at_ += segment->length;
        return piece;
      }
    }
    if (part_.from >= part_.to || band_ == route_.bands().size()) return std::nullopt;
    const Band& band = route_.bands()[band_++];
    const Range all = items_of(band, whole_);
    const Range items = items_of(band, part_);
    segments_.emplace(band.b, items.from, items.to);
    at_ = start_ + items.from - all.from;
    start_ += all.to - all.from;
  }
}

// ---------------------------------------------------------------- copies

Route::Step Route::step(Range range) const {
  if (is_listed()) {
    const auto list = state_->lists.of(state_->a, state_->b, range);
    return {list->range(), list->bytes(), list->extent(), list->range(), 0, std::nullopt, list, std::nullopt};
  }
  Step step;  // an initializer list would zero all of it, which short copies notice
  step.range = step.keys = range;
  for_bands(state_->bands, range, [&](std::size_t, const Band& band, Range items) {
    const Offset bytes = items.to - items.from;
    const std::optional<Offset> piece_b = short_piece(band.b, items);
    const Range hull = piece_b ? Range{*piece_b, *piece_b + bytes} : hull_of(band.b, items);
    step.piece_a = piece_b && step.bytes == 0 ? short_piece(band.a, items) : std::nullopt;
    step.bytes += bytes;
    step.extent_b = joined(step.extent_b, hull);
  });
  return step;
}

std::optional<Route::Step> Route::step(Range range, const Element& memory, Direction direction, Compose when) const {
  if (is_listed() || range.from >= range.to) return std::nullopt;
  Step step = this->step(range);
  auto composed = state_->composition.plan_for(state_->a, state_->b, range, memory, direction, when);
  if (!composed) return std::nullopt;
  step.keys = direction == Direction::kToB
                  ? Range{0, *memory.unmap(range.to - range.from - 1) + 1}
                  : Range{step.extent_b.from - composed->shift_b, step.extent_b.to - composed->shift_b};
  step.shift_b = composed->shift_b;
  step.piece_a = std::nullopt;
  step.plan = std::move(composed->plan);
  return step;
}

Route::Step Route::cut(const Step& step, Range keys) const {
  if (keys.from == step.keys.from && keys.to == step.keys.to) return step;
  if (!step.plan) return this->step(keys);
  Step part = step;
  part.keys = keys;
  return part;
}

void Route::copy_to_b(const Step& step, Source a, Target b) const {
  if (step.list) {
    return step.list->copy_to_b(static_cast<const std::byte*>(a.data) + (step.range.from - a.origin),
                                static_cast<std::byte*>(b.data) + (step.extent_b.from - b.origin));
  }
  if (step.plan) return step.plan->run({a.data, 0}, {b.data, b.origin - step.shift_b}, step.keys);
  if (step.piece_a) {
    std::memcpy(static_cast<std::byte*>(b.data) + (step.extent_b.from - b.origin),
                static_cast<const std::byte*>(a.data) + (*step.piece_a - a.origin),
                static_cast<std::size_t>(step.bytes));
    return;
  }
  const auto& plan = state_->to_b.get([this] { return Plan::copy(*state_->mapping); });
  plan->run(a, b, step.keys);
}

void Route::copy_to_a(const Step& step, Source b, Target a) const {
  if (step.list) {
    return step.list->copy_to_a(static_cast<const std::byte*>(b.data) + (step.extent_b.from - b.origin),
                                static_cast<std::byte*>(a.data) + (step.range.from - a.origin));
  }
  if (step.plan) return step.plan->run({b.data, b.origin - step.shift_b}, {a.data, 0}, step.keys);
  if (step.piece_a) {
    std::memcpy(static_cast<std::byte*>(a.data) + (*step.piece_a - a.origin),
                static_cast<const std::byte*>(b.data) + (step.extent_b.from - b.origin),
                static_cast<std::size_t>(step.bytes));
    return;
  }
  const auto& plan = state_->to_a.get([this] { return Plan::copy_back(*state_->mapping); });
  plan->run(b, a, step.keys);
}

void Route::clear_a(const Step& step, Target a) const {
  auto* const data = static_cast<std::byte*>(a.data);
  if (step.list) return step.list->clear_a(data + (step.range.from - a.origin));
  for_bands(state_->bands, step.keys, [&](std::size_t, const Band& band, Range items) {
    layout::SegmentCursor cursor(band.a, items.from, items.to);
    while (const auto segment = cursor.next()) {
      std::memset(data + (segment->offset - a.origin), 0, static_cast<std::size_t>(segment->length));
    }
  });
}

}  // namespace weir::transfer
