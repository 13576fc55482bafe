#include <weir/layout/internal/meet.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace weir::layout::internal {

namespace {

// `count` blocks of a node, the first at (x, y), and of each block only [lo, hi).
struct View {
  const Node* node;
  Offset x;
  Offset y;
  Offset count;
  Offset lo;
  Offset hi;

  [[nodiscard]] Offset from() const noexcept { return x + lo; }
  [[nodiscard]] Offset to() const noexcept { return x + (count - 1) * node->x_step + hi; }
  [[nodiscard]] bool is_leaf() const noexcept { return node->is_leaf(); }

  [[nodiscard]] View blocks(Offset first, Offset number) const noexcept {
    return {node, x + first * node->x_step, y + first * node->y_step, number, lo, hi};
  }
  [[nodiscard]] View block(Offset index) const noexcept { return blocks(index, 1); }
};

View whole(const Node& node, Offset x, Offset y) { return {&node, x + node.x, y + node.y, node.count, 0, node.length}; }

// Calls `use` with the parts of `view` in [from, to): at most a head, a body of whole blocks, a tail.
template <typename Use>
void restrict(const View& view, Offset from, Offset to, Use use) {
  if (view.from() >= from && view.to() <= to) return use(view);
  const auto use_clipped = [&](View block) {
    block.lo = std::max(block.lo, from - block.x);
    block.hi = std::min(block.hi, to - block.x);
    if (block.lo < block.hi) use(block);
  };
  if (view.count == 1) return use_clipped(view);
  const Offset step = view.node->x_step;
  Offset first = std::max<Offset>(0, floor_div(from - view.x - view.hi, step) + 1);
  Offset last = std::min(view.count - 1, ceil_div(to - view.x - view.lo, step) - 1);
  if (first > last) return;
  if (first == last) return use_clipped(view.block(first));
  if (view.block(first).from() < from) use_clipped(view.block(first++));
  const bool cut_at_end = view.block(last).to() > to;
  if (cut_at_end) --last;
  if (first <= last) use(view.blocks(first, last - first + 1));
  if (cut_at_end) use_clipped(view.block(last + 1));
}

// The inverse of `value` modulo `modulus`.  \pre they are coprime, 0 < value
Offset inverse(Offset value, Offset modulus) {
  Offset r0 = modulus, r1 = value % modulus, t0 = 0, t1 = 1;
  while (r1 != 0) {
    const Offset quotient = r0 / r1;
    r0 = std::exchange(r1, r0 - quotient * r1);
    t0 = std::exchange(t1, t0 - quotient * t1);
  }
  return floor_mod(t0, modulus);
}

Offset multiply_mod(Offset a, Offset b, Offset modulus) {
  return static_cast<Offset>(static_cast<__int128>(a) * b % modulus);
}

class TreeIntersection {
 public:
  TreeIntersection(const Tree& a, const Tree& b, std::size_t& steps_left, const RunSink& sink)
      : tree_a_(a), tree_b_(b), steps_left_(steps_left), sink_(sink) {}

  void pair(const View& f, const View& g) {
    if (is_over()) return;
    if (f.from() >= g.to() || g.from() >= f.to()) return;
    if (f.count == 1 && g.count == 1) return single_single(f, g);
    if (f.count == 1) return single_family(f, g, Side::kA);
    if (g.count == 1) return single_family(g, f, Side::kB);
    if (f.node->x_step >= g.node->x_step) return family_family(f, g, Side::kA);
    family_family(g, f, Side::kB);
  }

  [[nodiscard]] MeetEnd end() const noexcept { return end_; }

 private:
  enum class Side { kA, kB };

  bool is_over() {
    if (end_ != MeetEnd::kDone) return true;
    if (steps_left_ == 0) {
      end_ = MeetEnd::kOverBudget;
      return true;
    }
    --steps_left_;
    return false;
  }

  // `f` is of the side named, `g` of the other.
  void pair(const View& f, const View& g, Side side) { side == Side::kA ? pair(f, g) : pair(g, f); }

  template <typename Body>
  void in_loop(Offset count, Offset file, Offset own, Offset other, Side side, Body body) {
    if (count == 1) return body();
    loops_.push_back(side == Side::kA ? Loop{count, file, own, other} : Loop{count, file, other, own});
    body();
    loops_.pop_back();
  }

  // Calls `use` with the children of a single block that have bytes in [from, to), cut to that.
  template <typename Use>
  void for_children(const View& parent, const Tree& tree, Offset from, Offset to, Use use) {
    const Node* children = tree.nodes.data() + parent.node->first_child;
    const Node* end = children + parent.node->child_count;
    const Offset low = from - parent.x;
    const Offset high = to - parent.x;
    const Node* child =
        std::upper_bound(children, end, low, [](Offset value, const Node& node) { return value < node.reach; });
    for (; child != end && child->x < high; ++child) {
      if (end_ != MeetEnd::kDone) return;
      restrict(whole(*child, parent.x, parent.y), from, to, use);
    }
  }

  void single_single(const View& f, const View& g) {
    const Offset from = std::max(f.from(), g.from());
    const Offset to = std::min(f.to(), g.to());
    if (f.is_leaf() && g.is_leaf()) return emit(f, g, from, to);
    if (f.is_leaf()) {
      return for_children(g, tree_b_, from, to, [&](const View& child) { pair(f, child); });
    }
    for_children(f, tree_a_, from, to, [&](const View& child) {
      if (g.is_leaf()) return pair(child, g);
      for_children(g, tree_b_, child.from(), child.to(), [&](const View& other) { pair(child, other); });
    });
  }

  void single_family(const View& single, const View& family, Side side) {
    if (!single.is_leaf()) {
      const Tree& tree = side == Side::kA ? tree_a_ : tree_b_;
      return for_children(single, tree, std::max(single.from(), family.from()), std::min(single.to(), family.to()),
                          [&](const View& child) { pair(child, family, side); });
    }
    restrict(family, single.from(), single.to(), [&](const View& part) {
      const Offset step = part.node->x_step;  // inside one segment, file and element advance alike
      in_loop(part.count, step, step, part.node->y_step, side, [&] { pair(single, part.block(0), side); });
    });
  }

  // See the head of meet.h.
  void family_family(const View& coarse, const View& fine, Side side) {
    const Offset step = coarse.node->x_step;
    const Offset fine_step = fine.node->x_step;
    const auto first_at = [&](Offset x) { return ceil_div(x - coarse.x - coarse.lo, step); };  // first block from x on
    const auto last_at = [&](Offset x) { return floor_div(x - coarse.x - coarse.hi, step); };  // last block up to x
    const Offset first = std::max<Offset>(0, floor_div(fine.from() - coarse.x - coarse.hi, step) + 1);
    const Offset last = std::min(coarse.count - 1, first_at(fine.to()) - 1);
    if (first > last) return;

    Offset repeat_end;  // `fine` repeats from the gap before its first block to the gap behind its last
    if (__builtin_add_overflow(fine.to() - fine.hi, fine_step + fine.lo, &repeat_end)) {
      repeat_end = std::numeric_limits<Offset>::max();
    }
    const Offset inner_first = std::max(first, first_at(fine.x + fine.hi - fine_step));
    const Offset inner_last = std::min(last, last_at(repeat_end));
    for (Offset i = first; i < std::min(inner_first, last + 1); ++i) pair(coarse.block(i), fine, side);
    if (inner_first <= inner_last) {
      repeating(coarse.blocks(inner_first, inner_last - inner_first + 1), fine, side);
    }
    for (Offset i = std::max(inner_first, inner_last + 1); i <= last; ++i) pair(coarse.block(i), fine, side);
  }

  void repeating(const View& coarse, const View& fine, Side side) {
    if (coarse.count == 1) return pair(coarse.block(0), fine, side);
    const Offset step = coarse.node->x_step;
    const Offset fine_step = fine.node->x_step;
    const Offset gcd = std::gcd(step, fine_step);
    const Offset recur = fine_step / gcd;  // blocks after which the phase recurs
    const Offset classes = std::min(recur, coarse.count);
    const auto meet_class = [&](Offset i) {
      const Offset turns = (coarse.count - i + recur - 1) / recur;
      in_loop(turns, turns > 1 ? recur * step : 0, turns > 1 ? recur * coarse.node->y_step : 0,
              turns > 1 ? step / gcd * fine.node->y_step : 0, side, [&] { pair(coarse.block(i), fine, side); });
    };
    const Offset length = coarse.hi - coarse.lo;
    const Offset lowest_hit = fine.lo - length + 1;
    const Offset phase = floor_mod(coarse.from() - fine.x, fine_step);
    const Offset first_hit = lowest_hit + floor_mod(phase - lowest_hit, gcd);
    const Offset hits = first_hit < fine.hi ? (fine.hi - 1 - first_hit) / gcd + 1 : 0;
    if (hits >= classes) {
      for (Offset i = 0; i < classes && !is_over(); ++i) meet_class(i);
      return;
    }
    const Offset inverse_step = recur == 1 ? 0 : inverse(step / gcd, recur);
    for (Offset k = 0; k < hits && !is_over(); ++k) {
      const Offset distance = (first_hit + k * gcd - phase) / gcd;  // exact
      const Offset i = multiply_mod(floor_mod(distance, recur), inverse_step, recur);
      if (i < coarse.count) meet_class(i);
    }
  }

  void emit(const View& f, const View& g, Offset from, Offset to) {
    const Piece piece{from, f.y + (from - f.x), g.y + (from - g.x), to - from};
    if (!sink_(piece, loops_)) end_ = MeetEnd::kStopped;
  }

  const Tree& tree_a_;
  const Tree& tree_b_;
  std::size_t& steps_left_;
  const RunSink& sink_;
  std::vector<Loop> loops_;
  MeetEnd end_ = MeetEnd::kDone;
};

Shape shape_at(std::shared_ptr<const Tree> tree, Offset x, Offset y, Offset count, Offset x_step, Offset y_step) {
  Node root;
  for (std::uint32_t i = 0; i < tree->root_count; ++i) root.bytes += tree->nodes[i].bytes * tree->nodes[i].count;
  root.x = x;
  root.y = y;
  root.length = tree->root_count ? tree->nodes[tree->root_count - 1].reach : 0;
  root.count = count;
  root.x_step = count > 1 ? x_step : 0;
  root.y_step = count > 1 ? y_step : 0;
  root.first_child = 0;
  root.child_count = tree->root_count;
  return {std::move(tree), root};
}

// Bytes [x, x + length) of the file, as bytes from y on.
Shape segment_at(Offset x, Offset y, Offset length) {
  Node leaf;
  leaf.length = leaf.bytes = leaf.reach = length;
  return shape_at(std::make_shared<const Tree>(Tree{{leaf}, 1}), x, y, 1, 0, 0);
}

}  // namespace

Shape make_shape(std::shared_ptr<const Tree> tree) { return shape_at(std::move(tree), 0, 0, 1, 0, 0); }

Result<std::vector<Shape>> shapes_of(const Trees& trees, Range range) {
  std::vector<Shape> shapes;
  const Offset size = trees.size;
  if (size == 0) return shapes;
  range.from = std::max<Offset>(range.from, 0);
  if (trees.endless) {
    range.to = std::min(range.to, kMaxBytes - trees.disp);
    if (range.from < range.to) {
      shapes.push_back(segment_at(trees.disp + range.from, range.from, range.to - range.from));
    }
    return shapes;
  }
  const Offset first_byte = trees.spatial->nodes[0].x;
  if (trees.disp + first_byte >= kMaxBytes) return shapes;
  const Offset periods = (kMaxBytes - trees.disp - first_byte - 1) / trees.period + 1;
  Offset limit;
  if (__builtin_mul_overflow(periods, size, &limit)) limit = std::numeric_limits<Offset>::max();
  range.to = std::min(range.to, limit);
  if (range.from >= range.to) return shapes;

  const auto add = [&](std::shared_ptr<const Tree> tree, Offset period, Offset y, Offset count) {
    shapes.push_back(shape_at(std::move(tree), trees.disp + period * trees.period, y, count, trees.period, size));
  };
  const auto add_part = [&](Offset period, Offset from, Offset to) -> Status {
    WEIR_TRY(Spatial part, make_spatial(simplify(subsequence(trees.simplified(), from, to))));
    add(std::make_shared<const Tree>(std::move(part.tree)), period, period * size + from, 1);
    return Status::ok();
  };
  const Offset first_whole = ceil_div(range.from, size);
  const Offset end_whole = range.to / size;
  if (first_whole > end_whole) {  // inside one period
    WEIR_RETURN_IF_ERROR(add_part(end_whole, range.from - end_whole * size, range.to - end_whole * size));
    return shapes;
  }
  const Offset head = first_whole * size - range.from;
  const Offset tail = range.to - end_whole * size;
  if (head > 0) WEIR_RETURN_IF_ERROR(add_part(first_whole - 1, size - head, size));
  if (first_whole < end_whole) add(trees.spatial, first_whole, first_whole * size, end_whole - first_whole);
  if (tail > 0) WEIR_RETURN_IF_ERROR(add_part(end_whole, 0, tail));
  return shapes;
}

MeetEnd meet(const Shape& a, const Shape& b, Range file, std::size_t& steps_left, const RunSink& sink) {
  TreeIntersection intersection{*a.tree, *b.tree, steps_left, sink};
  restrict(whole(a.root, 0, 0), file.from, std::min(file.to, kMaxBytes),
           [&](const View& part) { intersection.pair(part, whole(b.root, 0, 0)); });
  return intersection.end();
}

MeetEnd meet_siblings(const Tree& tree, const Node& a, const Node& b, std::size_t& steps_left, const RunSink& sink) {
  TreeIntersection intersection{tree, tree, steps_left, sink};
  intersection.pair(whole(a, 0, 0), whole(b, 0, 0));
  return intersection.end();
}

}  // namespace weir::layout::internal
