#include <weir/layout/mapping.h>

#include <algorithm>
#include <numeric>

#include <weir/layout/band.h>
#include <weir/layout/internal/address_tree.h>
#include <weir/layout/internal/nest.h>

namespace weir::layout {

namespace {

using internal::MeetEnd;
using internal::Shape;

bool is_multiple(const Loop& outer, const Loop& inner) {
  return outer.file == inner.count * inner.file && outer.a == inner.count * inner.a && outer.b == inner.count * inner.b;
}

}  // namespace

/// Collects runs, each in its simplest form.
class MappingBuilder {
 public:
  explicit MappingBuilder(const Budget& budget) : budget_(budget) {}

  /// False if the budget is used up.
  bool add(const Piece& first, std::span<const Loop> loops) {
    scratch_.assign(loops.begin(), loops.end());
    Offset length = first.length;
    while (!scratch_.empty() && is_contiguous(scratch_.back(), length)) {
      length *= scratch_.back().count;
      scratch_.pop_back();
    }
    for (std::size_t i = scratch_.size(); i-- > 1;) {
      if (!is_multiple(scratch_[i - 1], scratch_[i])) continue;
      scratch_[i - 1] = {scratch_[i - 1].count * scratch_[i].count, scratch_[i].file, scratch_[i].a, scratch_[i].b};
      scratch_.erase(scratch_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (joins_last(first, length)) return true;
    if (mapping_.runs_.size() >= budget_.runs) return false;
    mapping_.runs_.push_back({first.file, first.a, first.b, length, static_cast<std::uint32_t>(mapping_.loops_.size()),
                              static_cast<std::uint32_t>(scratch_.size())});
    mapping_.loops_.insert(mapping_.loops_.end(), scratch_.begin(), scratch_.end());
    return true;
  }

  void set_period(Offset disp, Offset period, Offset a_period, Offset b_period) {
    mapping_.disp_ = disp;
    mapping_.period_ = period;
    mapping_.a_period_ = a_period;
    mapping_.b_period_ = b_period;
  }

  Mapping take() && { return std::move(mapping_); }

 private:
  static bool is_contiguous(const Loop& loop, Offset length) {
    return loop.file == length && loop.a == length && loop.b == length;
  }

  // Continues the last run where that has the same loops and ends where this one starts.
  bool joins_last(const Piece& first, Offset length) {
    if (mapping_.runs_.empty()) return false;
    Run& last = mapping_.runs_.back();
    if (last.file + last.length != first.file || last.a + last.length != first.a || last.b + last.length != first.b)
      return false;
    if (!std::ranges::equal(mapping_.loops(last), scratch_)) return false;
    last.length += length;
    return true;
  }

  Budget budget_;
  Mapping mapping_;
  std::vector<Loop> scratch_;
};

namespace {

Budget resolve(Budget budget, std::size_t nodes) {
  if (budget.runs == 0) budget.runs = (std::size_t{1} << 16) + 8 * nodes;
  if (budget.steps == 0) budget.steps = (std::size_t{1} << 20) + 64 * nodes;
  return budget;
}

std::size_t nodes_of(const Element& element) { return element.trees().spatial->nodes.size(); }

Status over_budget(const Budget& budget) {
  return too_complex(concat("intersect: the two patterns need more than ", budget.runs, " families or ", budget.steps,
                            " steps: ask for a smaller range"));
}

Status meet_all(const Element& a, const Element& b, const Window& window, const Budget& budget,
                MappingBuilder& builder) {
  WEIR_TRY(const std::vector<Shape> a_shapes, internal::shapes_of(a.trees(), window.a));
  WEIR_TRY(const std::vector<Shape> b_shapes, internal::shapes_of(b.trees(), window.b));
  std::size_t steps_left = budget.steps;
  for (const Shape& a_shape : a_shapes) {
    for (const Shape& b_shape : b_shapes) {
      const MeetEnd end =
          internal::meet(a_shape, b_shape, window.file, steps_left,
                         [&](const Piece& first, std::span<const Loop> loops) { return builder.add(first, loops); });
      if (end != MeetEnd::kDone) return over_budget(budget);
    }
  }
  return Status::ok();
}

std::vector<internal::Chain> chains(const Mapping& mapping, Offset Run::*start, Offset Loop::*step, Offset origin) {
  std::vector<internal::Chain> out;
  for (const Run& run : mapping.runs()) {
    internal::Chain chain{run.*start - origin, run.length, {}};
    for (const Loop& loop : mapping.loops(run)) chain.loops.push_back({loop.count, loop.*step});
    out.push_back(std::move(chain));
  }
  return out;
}

// After which both repeat.  An element without gaps repeats after any number of bytes: a file of one subfile fits all
// views, however it is written.
Result<Offset> common_period(const Element& a, const Element& b) {
  if (a.is_endless() && b.is_endless()) return std::max(a.period(), b.period());
  if (a.is_endless()) return b.period();
  if (b.is_endless()) return a.period();
  const Offset a_turns = b.period() / std::gcd(a.period(), b.period());
  Offset period;
  if (__builtin_mul_overflow(a.period(), a_turns, &period) || period > kMaxBytes) {
    return too_complex(concat("intersect: the common period of ", a.period(), " and ", b.period(),
                              " bytes exceeds 2^62: ask for a smaller range"));
  }
  return period;
}

}  // namespace

Result<Mapping> intersect(const Element& a, const Element& b, const Budget& limits) {
  const Budget budget = resolve(limits, nodes_of(a) + nodes_of(b));
  const Offset disp = std::max(a.disp(), b.disp());
  WEIR_TRY(const Offset period, common_period(a, b));
  const auto advance = [period](const Element& element) {
    return element.is_endless() ? period : element.size() * (period / element.period());
  };
  MappingBuilder builder{budget};
  builder.set_period(disp, period, advance(a), advance(b));
  const Window window{.file = {disp, disp + std::min(period, kMaxBytes - disp)}, .a = {}, .b = {}};
  WEIR_RETURN_IF_ERROR(meet_all(a, b, window, budget, builder));
  return std::move(builder).take();
}

Result<Mapping> intersect(const Element& a, const Element& b, const Window& window, const Budget& limits) {
  const Budget budget = resolve(limits, nodes_of(a) + nodes_of(b));
  MappingBuilder builder{budget};
  WEIR_RETURN_IF_ERROR(meet_all(a, b, window, budget, builder));
  return std::move(builder).take();
}

namespace {

enum class Side { kA, kB };

Result<Mapping> compose(const Mapping& mapping, Side side, const Element& memory, const Budget& limits) {
  const Budget budget = resolve(limits, mapping.node_count() + nodes_of(memory));
  std::vector<Band> bands = bands_of(mapping, side == Side::kA ? Order::kA : Order::kB);
  if (side == Side::kB) {
    for (Band& band : bands) {
      std::swap(band.piece.a, band.piece.b);
      for (Loop& loop : band.loops) std::swap(loop.a, loop.b);
    }
  }
  // Joined on the replaced offset: the kept side and memory are what each tree carries along.
  MappingBuilder builder{budget};
  std::vector<Loop> turned;
  std::size_t steps_left = budget.steps;
  const Shape kept = internal::shape_of(std::move(bands));
  const Shape replaced = internal::address_shape(memory.trees());
  const MeetEnd end =
      internal::meet(kept, replaced, {0, kMaxBytes}, steps_left, [&](Piece first, std::span<const Loop> loops) {
        turned.assign(loops.begin(), loops.end());
        if (side == Side::kA) {
          std::swap(first.a, first.b);
          for (Loop& loop : turned) std::swap(loop.a, loop.b);
        }
        return builder.add(first, turned);
      });
  if (end != MeetEnd::kDone) return over_budget(budget);
  return std::move(builder).take();
}

}  // namespace

Result<Mapping> compose_a(const Mapping& mapping, const Element& memory, const Budget& budget) {
  return compose(mapping, Side::kA, memory, budget);
}

Result<Mapping> compose_b(const Mapping& mapping, const Element& memory, const Budget& budget) {
  return compose(mapping, Side::kB, memory, budget);
}

Offset Mapping::bytes() const noexcept {
  Offset total = 0;
  for (const Run& run : runs_) {
    Offset bytes = run.length;
    for (const Loop& loop : loops(run)) bytes *= loop.count;
    total += bytes;
  }
  return total;
}

std::size_t Mapping::node_count() const noexcept {
  std::size_t nodes = 0;
  for (const Run& run : runs_) nodes += std::max<std::size_t>(run.loop_count, 1);
  return nodes;
}

FallsSet Mapping::file_falls() const { return internal::nest(chains(*this, &Run::file, &Loop::file, disp_)); }
FallsSet Mapping::a_falls() const { return internal::nest(chains(*this, &Run::a, &Loop::a, 0)); }
FallsSet Mapping::b_falls() const { return internal::nest(chains(*this, &Run::b, &Loop::b, 0)); }

}  // namespace weir::layout
