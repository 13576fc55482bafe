// From the loops of a mapping to families of equal pieces.

#include <weir/model/model.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include <weir/layout/band.h>
#include <weir/model/internal/cost.h>

namespace weir::model {
namespace {

using layout::Band;
using layout::Loop;
using layout::Mapping;
using layout::Order;

// Steps of a loop in source and target; a packed side has none.
struct Turn {
  Offset count;
  Offset source;
  Offset target;
};

struct Shape {
  Offset source = 0;  // offset of the first byte
  Offset target = 0;
  Offset length = 0;
  std::vector<Turn> turns;  // slowest first
};

struct Sides {
  bool source;  // strided
  bool target;
};

Sides sides_of(Path path) { return {path != Path::kUnpack, path != Path::kPack}; }

Offset hull_of(const std::vector<Band>& bands, Order order) {
  Offset from = std::numeric_limits<Offset>::max();
  Offset to = 0;
  for (const Band& band : bands) {
    const Offset start = layout::key_of(band.piece, order);
    Offset end = start + band.piece.length;
    for (const Loop& loop : band.loops) end += (loop.count - 1) * layout::step_of(loop, order);
    from = std::min(from, start);
    to = std::max(to, end);
  }
  return bands.empty() ? 0 : to - from;
}

// In the order of the message: that of b, or that of a if only a is contiguous.  See transfer::Packing.
std::vector<Band> bands_in_order(const Mapping& mapping, Path path) {
  if (path == Path::kCopy) return layout::bands_of(mapping, Order::kA);
  std::vector<Band> by_b = layout::bands_of(mapping, Order::kB);
  if (hull_of(by_b, Order::kB) == mapping.bytes()) return by_b;
  std::vector<Band> by_a = layout::bands_of(mapping, Order::kA);
  return hull_of(by_a, Order::kA) == mapping.bytes() ? by_a : by_b;
}

// Joins loops that go on where the one inside ends, on every strided side.
void melt(Shape& shape, Sides sides) {
  std::erase_if(shape.turns, [](const Turn& turn) { return turn.count == 1; });
  for (std::size_t i = shape.turns.size(); i-- > 1;) {
    const Turn inner = shape.turns[i];
    Turn& outer = shape.turns[i - 1];
    const bool fits = (!sides.source || outer.source == inner.source * inner.count) &&
                      (!sides.target || outer.target == inner.target * inner.count);
    if (!fits) continue;
    outer = {outer.count * inner.count, inner.source, inner.target};
    shape.turns.erase(shape.turns.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (!shape.turns.empty()) {
    const Turn& inner = shape.turns.back();
    const bool fits =
        (!sides.source || inner.source == shape.length) && (!sides.target || inner.target == shape.length);
    if (!fits) return;
    shape.length *= inner.count;
    shape.turns.pop_back();
  }
}

std::vector<Shape> shapes_of(const Mapping& mapping, Path path) {
  std::vector<Shape> shapes;
  for (const Band& band : bands_in_order(mapping, path)) {
    Shape& shape = shapes.emplace_back(Shape{band.piece.a, band.piece.b, band.piece.length, {}});
    for (const Loop& loop : band.loops) shape.turns.push_back({loop.count, loop.a, loop.b});
    melt(shape, sides_of(path));
  }
  return shapes;
}

// Bytes from piece to piece on one side, as far as cache lines are concerned.
class StrideFinder {
 public:
  StrideFinder(const std::vector<Shape>& shapes, Offset Turn::*step, Offset Shape::*start, const Machine& machine)
      : shapes_(shapes), step_(step), start_(start), machine_(machine) {
    for (const Shape& shape : shapes) ++members_[group_of(shape)];
  }

  [[nodiscard]] double inner(const Shape& shape) const {
    const auto length = static_cast<double>(shape.length);
    if (shape.turns.empty()) return std::max(length, mean_distance());
    // Families that share their loop lie between each other's pieces and share lines.
    const auto shared = static_cast<double>(members_.at(group_of(shape)));
    return std::max(length, static_cast<double>(grain_of(shape)) / shared);
  }

  // From the last piece of an inner loop to the first of the next one.
  [[nodiscard]] double outer(const Shape& shape) const {
    const Turn& last = shape.turns.back();
    const Offset distance = shape.turns[shape.turns.size() - 2].*step_ - (last.count - 1) * (last.*step_);
    return std::max(static_cast<double>(shape.length), static_cast<double>(std::abs(distance)));
  }

  [[nodiscard]] Offset sharing(const Shape& shape) const { return members_.at(group_of(shape)); }

 private:
  using Group = std::tuple<Offset, Offset, Offset>;

  [[nodiscard]] Group group_of(const Shape& shape) const {
    if (shape.turns.empty()) return {0, 0, 0};
    const Turn& last = shape.turns.back();
    const Offset hull = std::max<Offset>(1, last.count * (last.*step_));
    return {last.*step_, last.count, shape.*start_ / hull};
  }

  // The innermost step; across the grain of a transposed array the smallest one, if lines stay in the cache until the
  // next visit.
  [[nodiscard]] Offset grain_of(const Shape& shape) const {
    const Offset innermost = shape.turns.back().*step_;
    Offset smallest = innermost;
    for (const Turn& turn : shape.turns) smallest = std::min(smallest, turn.*step_);
    if (smallest >= machine_.line_bytes || innermost < machine_.line_bytes) return innermost;
    const bool is_tiled = shape.length <= 32 && (shape.length & (shape.length - 1)) == 0;
    const bool stays = shape.turns.back().count * machine_.line_bytes <= machine_.caches.front().bytes / 2;
    return is_tiled || stays ? smallest : innermost;
  }

  [[nodiscard]] double mean_distance() const {
    Offset from = std::numeric_limits<Offset>::max();
    Offset to = 0;
    Offset singles = 0;
    for (const Shape& shape : shapes_) {
      if (!shape.turns.empty()) continue;
      from = std::min(from, shape.*start_);
      to = std::max(to, shape.*start_ + shape.length);
      ++singles;
    }
    return static_cast<double>(to - from) / static_cast<double>(singles);
  }

  const std::vector<Shape>& shapes_;
  Offset Turn::*step_;
  Offset Shape::*start_;
  const Machine& machine_;
  std::map<Group, Offset> members_;
};

double piece_count(const Shape& shape) {
  double pieces = 1;
  for (const Turn& turn : shape.turns) pieces *= static_cast<double>(turn.count);
  return pieces;
}

// Inner loops that are started: families that share their loop are run in turns that fit the first cache (see
// transfer).
double starts_of(const Shape& shape, double pieces, Offset sharing, const Machine& machine) {
  if (shape.turns.empty()) return 0;
  double run = static_cast<double>(shape.turns.back().count);
  if (sharing > 1) {
    const double touched = 2.0 * static_cast<double>(sharing * std::max(shape.length, machine.line_bytes));
    run = std::clamp(static_cast<double>(machine.caches.front().bytes) / 2 / touched, 1.0, run);
  }
  return pieces / run;
}

void add_families(const Shape& shape, Path path, const StrideFinder& source, const StrideFinder& target,
                  const Machine& machine, CopyFeatures& features) {
  const Sides sides = sides_of(path);
  const auto length = static_cast<double>(shape.length);
  const double pieces = piece_count(shape);
  const Offset sharing = sides.source ? source.sharing(shape) : target.sharing(shape);
  const double starts = starts_of(shape, pieces, sharing, machine);
  CopyFamily inner{pieces, starts, shape.length, sides.source ? source.inner(shape) : length,
                   sides.target ? target.inner(shape) : length};
  if (shape.turns.size() >= 2) {
    const double hops = pieces / static_cast<double>(shape.turns.back().count);
    inner.pieces -= hops;
    features.families.push_back({hops, 0, shape.length, sides.source ? source.outer(shape) : length,
                                 sides.target ? target.outer(shape) : length});
  }
  features.families.push_back(inner);
  features.pieces += pieces;
  features.bytes += pieces * length;
  features.min_length = features.min_length == 0 ? shape.length : std::min(features.min_length, shape.length);
}

}  // namespace

CopyFeatures features_of(const Mapping& a_to_b, Path path, const Machine& machine) {
  CopyFeatures features;
  features.path = path;
  const std::vector<Shape> shapes = shapes_of(a_to_b, path);
  const StrideFinder source(shapes, &Turn::source, &Shape::source, machine);
  const StrideFinder target(shapes, &Turn::target, &Shape::target, machine);
  for (const Shape& shape : shapes) add_families(shape, path, source, target, machine, features);
  if (features.pieces > 0) features.mean_length = features.bytes / features.pieces;
  const auto line = static_cast<double>(machine.line_bytes);
  for (const CopyFamily& family : features.families) {
    const auto length = static_cast<double>(family.length);
    features.working_set += family.pieces * line *
                            (internal::units_per_piece(length, family.source_stride, machine.line_bytes) +
                             internal::units_per_piece(length, family.target_stride, machine.line_bytes));
  }
  return features;
}

}  // namespace weir::model
