#include <weir/layout/falls.h>

#include <algorithm>
#include <limits>

#include <weir/layout/internal/rewrite.h>

namespace weir::layout {

namespace {

constexpr Offset kForever = std::numeric_limits<Offset>::max();

// What a window [first, last] leaves of a set, and how far the window may move towards lower offsets, by any amount up
// to `slack`, before it leaves something else.  The slack lets a run of interleaved blocks be cut in one step where
// each block sees the same part of the window.
struct CutSet {
  FallsSet set;
  Offset slack = kForever;
};

class Cutter {
 public:
  static CutSet cut(const FallsSet& set, Offset first, Offset last) {
    Cutter cutter{first, last};
    for (const Falls& falls : set) cutter.add(falls);
    return std::move(cutter.part_);
  }

 private:
  Cutter(Offset first, Offset last) : first_(first), last_(last) {}

  void add(const Falls& falls) {
    const Offset stride = falls.count > 1 ? falls.stride : 1;
    // Blocks below `inside` start before the window, blocks from `after` on end behind it.
    const Offset touching = std::clamp<Offset>(ceil_div(first_ - falls.right, stride), 0, falls.count);
    const Offset beyond = std::clamp<Offset>(floor_div(last_ - falls.left, stride) + 1, touching, falls.count);
    const Offset inside = std::clamp<Offset>(ceil_div(first_ - falls.left, stride), touching, beyond);
    const Offset after = std::clamp<Offset>(floor_div(last_ - falls.right, stride) + 1, inside, beyond);
    if (touching > 0) limit_slack(first_ - (falls.right + (touching - 1) * stride) - 1);
    add_partial(falls, touching, inside, stride);
    if (after > inside) {
      Falls whole = falls;
      whole.left += inside * stride;
      whole.right += inside * stride;
      whole.count = after - inside;
      limit_slack(last_ - (whole.right + (whole.count - 1) * stride));
      part_.set.push_back(std::move(whole));
    }
    add_partial(falls, after, beyond, stride);
  }

  // Blocks [from, to) are cut by an end of the window.
  void add_partial(const Falls& falls, Offset from, Offset to, Offset stride) {
    for (Offset block = from; block < to;) {
      const Offset left = falls.left + block * stride;
      if (falls.is_leaf()) {
        part_.set.push_back({std::max(left, first_), std::min(falls.right + block * stride, last_), 0, 1, {}});
        limit_slack(0);
        ++block;
        continue;
      }
      CutSet inner = cut(falls.inner, first_ - left, last_ - left);
      const Offset alike = inner.slack == kForever ? to - block : std::min(to - block, inner.slack / stride + 1);
      limit_slack(alike > 1 ? 0 : inner.slack);
      if (!inner.set.empty()) {
        Falls blocks{left, falls.right + block * stride, alike > 1 ? stride : 0, alike, std::move(inner.set)};
        internal::tighten(blocks);  // now it starts inside the window
        part_.set.push_back(std::move(blocks));
      }
      block += alike;
    }
  }

  void limit_slack(Offset slack) { part_.slack = std::min(part_.slack, slack); }

  Offset first_;
  Offset last_;
  CutSet part_;
};

FallsSet take(const FallsSet& set, Offset from, Offset to);

void take_blocks(const Falls& falls, Offset from, Offset to, FallsSet& out) {
  const Offset bytes = falls.is_leaf() ? falls.block_length() : size(falls.inner);
  if (bytes == 0) return;
  const auto add_part = [&](Offset block, Offset part_from, Offset part_to) {
    const Offset left = falls.left + block * falls.stride;
    if (falls.is_leaf()) {
      out.push_back({left + part_from, left + part_to - 1, 0, 1, {}});
    } else {
      out.push_back({left, left + falls.block_length() - 1, 0, 1, take(falls.inner, part_from, part_to)});
    }
  };
  const Offset first_block = from / bytes;
  const Offset last_block = (to - 1) / bytes;
  if (first_block == last_block && to - from < bytes) {
    return add_part(first_block, from - first_block * bytes, to - first_block * bytes);
  }
  const Offset whole_from = ceil_div(from, bytes);
  const Offset whole_to = to / bytes;
  if (first_block < whole_from) add_part(first_block, from - first_block * bytes, bytes);
  if (whole_from < whole_to) {
    Falls whole = falls;
    whole.left += whole_from * falls.stride;
    whole.right += whole_from * falls.stride;
    whole.count = whole_to - whole_from;
    out.push_back(std::move(whole));
  }
  if (whole_to * bytes < to) add_part(whole_to, 0, to - whole_to * bytes);
}

FallsSet take(const FallsSet& set, Offset from, Offset to) {
  FallsSet out;
  Offset start = 0;
  for (const Falls& falls : set) {
    const Offset bytes = size(falls);
    const Offset part_from = std::max<Offset>(from - start, 0);
    const Offset part_to = std::min(to - start, bytes);
    if (part_from < part_to) take_blocks(falls, part_from, part_to, out);
    start += bytes;
  }
  return out;
}

}  // namespace

FallsSet cut(const FallsSet& set, Offset first, Offset last) {
  FallsSet part = Cutter::cut(set, first, last).set;
  internal::shift(part, -first);
  return simplify(std::move(part));
}

FallsSet subsequence(const FallsSet& set, Offset from, Offset to) { return take(set, from, to); }

}  // namespace weir::layout
