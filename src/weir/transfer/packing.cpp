#include <weir/transfer/packing.h>

#include <algorithm>
#include <cassert>
#include <limits>

#include <weir/layout/band.h>
#include <weir/transfer/internal/program.h>

namespace weir::transfer {

namespace {

using internal::Key;
using internal::Program;
using internal::Step;
using layout::Band;
using layout::Loop;
using layout::Mapping;
using layout::Order;
using layout::Piece;

// A band whose place in the message is known: where it starts and what each of its loops advances there.
struct Placed {
  Piece piece;
  std::vector<Loop> loops;
  Offset message = 0;
  std::vector<Offset> steps;
};

struct Hull {
  Offset from = std::numeric_limits<Offset>::max();
  Offset to = 0;
};

Hull hull_of(const std::vector<Band>& bands, Order order) {
  Hull hull;
  for (const Band& band : bands) {
    const Offset from = key_of(band.piece, order);
    Offset to = from + band.piece.length;
    for (const Loop& loop : band.loops) to += (loop.count - 1) * step_of(loop, order);
    hull = {std::min(hull.from, from), std::max(hull.to, to)};
  }
  return hull;
}

// Places for a message that is a range of one element: the bands hold each of its bytes once, so offsets are
// differences.  Empty if that element is not contiguous.  Turns of a band may reach into each other.
std::vector<Placed> place_directly(const std::vector<Band>& bands, Order order, Offset bytes) {
  const Hull hull = hull_of(bands, order);
  if (hull.to - hull.from != bytes) return {};
  std::vector<Placed> placed;
  for (const Band& band : bands) {
    Placed& item = placed.emplace_back(Placed{band.piece, band.loops, key_of(band.piece, order) - hull.from, {}});
    for (const Loop& loop : band.loops) item.steps.push_back(step_of(loop, order));
  }
  return placed;
}

// Lays bands out in a message one after the other; those that share a loop, turn by turn, so that one pass over the
// memory serves them all.
class Arranger {
 public:
  static std::vector<Placed> arrange(const std::vector<Band>& bands) {
    Arranger arranger;
    std::vector<Placed> items;
    for (const Band& band : bands) {
      items.push_back({band.piece, band.loops, 0, std::vector<Offset>(band.loops.size())});
    }
    return arranger.level(std::move(items), 0);
  }

 private:
  // Items that share their first `depth` loops; one turn of those.
  std::vector<Placed> level(std::vector<Placed> items, std::size_t depth) {
    std::vector<Placed> out;
    while (!items.empty()) {  // again for what is left where loops turn unequally often
      std::sort(items.begin(), items.end(), [](const Placed& x, const Placed& y) { return x.piece.b < y.piece.b; });
      std::vector<Placed> rests;
      for (std::size_t at = 0; at < items.size();) at = group(items, at, depth, rests, out);
      items = std::move(rests);
    }
    return out;
  }

  // The items from `at` on that turn together; returns the first that does not.
  std::size_t group(std::vector<Placed>& items, std::size_t at, std::size_t depth, std::vector<Placed>& rests,
                    std::vector<Placed>& out) {
    if (items[at].loops.size() <= depth) {
      items[at].message = next_;
      next_ += items[at].piece.length;
      out.push_back(std::move(items[at]));
      return at + 1;
    }
    const Loop loop = items[at].loops[depth];
    const Offset turn_end = items[at].piece.b + loop.b;
    std::size_t end = at;
    Offset turns = loop.count;
    for (; end < items.size() && turns_with(items[end], depth, loop) && items[end].piece.b < turn_end; ++end) {
      turns = std::min(turns, items[end].loops[depth].count);
    }
    std::vector<Placed> members;
    for (std::size_t i = at; i < end; ++i) {
      if (items[i].loops[depth].count > turns) rests.push_back(split(items[i], depth, turns));
      members.push_back(std::move(items[i]));
    }
    const Offset start = next_;
    for (Placed& item : level(std::move(members), depth + 1)) {
      item.steps[depth] = next_ - start;
      out.push_back(std::move(item));
    }
    next_ = start + (next_ - start) * turns;
    return end;
  }

  static bool turns_with(const Placed& item, std::size_t depth, const Loop& loop) {
    return item.loops.size() > depth && item.loops[depth].a == loop.a && item.loops[depth].b == loop.b;
  }

  static Placed split(Placed& item, std::size_t depth, Offset turns) {
    Placed rest = item;
    move(rest.piece, item.loops[depth], turns);
    rest.loops[depth].count -= turns;
    item.loops[depth].count = turns;
    return rest;
  }

  Offset next_ = 0;
};

std::vector<Program::Input> inputs_of(const std::vector<Placed>& placed, End end) {
  std::vector<Program::Input> inputs;
  for (const Placed& item : placed) {
    Program::Input input{end == End::kA ? item.piece.a : item.message,
                         end == End::kA ? item.message : item.piece.b,
                         item.piece.length,
                         {}};
    for (std::size_t i = 0; i < item.loops.size(); ++i) {
      const Loop& loop = item.loops[i];
      input.loops.push_back(end == End::kA ? Step{loop.count, loop.a, item.steps[i]}
                                           : Step{loop.count, item.steps[i], loop.b});
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// The end whose memory is the message, from `direct` on.
std::vector<Program::Input> direct_input(Offset direct, End end, Offset bytes) {
  return {{end == End::kA ? direct : 0, end == End::kA ? 0 : direct, bytes, {}}};
}

std::shared_ptr<const Program> compile(std::vector<Program::Input> inputs, const std::vector<Band>& bands, End end,
                                       Offset bytes) {
  const Hull hull = hull_of(bands, end == End::kA ? Order::kA : Order::kB);
  auto program = std::make_shared<Program>(std::move(inputs), end == End::kA ? Key::kTarget : Key::kSource);
  program->bytes = bytes;
  program->working_set = hull.to - hull.from + bytes;
  return program;
}

}  // namespace

Packing Packing::create(const Mapping& a_to_b, End end) {
  assert(!a_to_b.is_periodic() && !a_to_b.is_empty());
  const Offset bytes = a_to_b.bytes();
  std::vector<Band> bands = bands_of(a_to_b, Order::kB);
  std::optional<Offset> a_direct;
  std::optional<Offset> b_direct;
  std::vector<Placed> placed = place_directly(bands, Order::kB, bytes);
  if (!placed.empty()) b_direct = hull_of(bands, Order::kB).from;
  const bool is_single = bands.size() == 1 && bands.front().loops.empty();
  if (is_single) a_direct = bands.front().piece.a;
  if (placed.empty()) {
    std::vector<Band> by_a = bands_of(a_to_b, Order::kA);
    placed = place_directly(by_a, Order::kA, bytes);
    if (!placed.empty()) {
      a_direct = hull_of(by_a, Order::kA).from;
      bands = std::move(by_a);
    }
  }
  if (placed.empty()) placed = Arranger::arrange(bands);
  const std::optional<Offset>& direct = end == End::kA ? a_direct : b_direct;
  std::vector<Program::Input> inputs = direct ? direct_input(*direct, end, bytes) : inputs_of(placed, end);
  return {bytes, a_direct, b_direct, Plan(compile(std::move(inputs), bands, end, bytes))};
}

}  // namespace weir::transfer
