#include <weir/layout/falls.h>

// Rewriting rules, each of which keeps the sequence of bytes (not only the set) and lowers the number of nodes or flattens:
//
//   promote   (l,r,s,n,{c}) with a single block c          -> (l+lc, l+rc, s, n, Ic)
//             (l,r,-,1,{c, d, ...})                        -> c, d, ... moved by l
//   melt      (l,r,s,n) with s = block length              -> (l, l+n*s-1, -, 1)
//   flatten   (l,r,s,n,{(lc,rc,sc,nc,I)}) with s = nc*sc   -> (l+lc, l+rc, sc, n*nc, I)
//   merge     (l,r,-,1), (r+1,t,-,1)                       -> (l,t,-,1)
//   extend    (l,r,s,n,I), (l+n*s,..,s,m,I)                -> (l,r,s,n+m,I)
//   fold      k shifted copies of a group of neighbours at equal distances d -> one family of stride d around the group
//
// The first promotion is for an only child: with siblings it would change the order of the bytes.

#include <algorithm>
#include <cstddef>

#include <weir/layout/internal/rewrite.h>

namespace weir::layout {

namespace {

using internal::shift;
using internal::tighten;

constexpr std::size_t kLongestGroup = 16;  // neighbours that are tried as one repeated group

bool same_shape(const Falls& a, const Falls& b) { return a.block_length() == b.block_length() && a.inner == b.inner; }

bool is_shifted_copy(const Falls& a, const Falls& b, Offset by) {
  return a.left + by == b.left && a.count == b.count && (a.count == 1 || a.stride == b.stride) && same_shape(a, b);
}

Offset last_end(const Falls& falls) {
  return falls.right + 1 + (falls.count > 1 ? (falls.count - 1) * falls.stride : 0);
}

void melt(Falls& falls) {
  if (falls.is_leaf() && falls.count > 1 && falls.stride == falls.block_length()) {
    falls.right = falls.left + falls.count * falls.stride - 1;
    falls.count = 1;
  }
  if (falls.count == 1) falls.stride = 0;
}

// Absorbs an only child where promote or flatten applies.
bool absorb_only_child(Falls& falls) {
  if (falls.inner.size() != 1) return false;
  Falls& child = falls.inner.front();
  // Blocks that hold bytes twice stay nested: as a leaf they would not pass check().
  if (child.is_leaf() && child.count == 1 && falls.count > 1 && falls.stride < child.block_length()) return false;
  if (child.count > 1) {
    if (falls.count > 1 && falls.stride != child.count * child.stride) return false;
    falls.stride = child.stride;
    falls.count *= child.count;
  }
  falls.right = falls.left + child.right;
  falls.left += child.left;
  FallsSet inner = std::move(child.inner);
  falls.inner = std::move(inner);
  return true;
}

// Appends g to `out`, joining it with the last member where merge or extend applies.
void append_joined(FallsSet& out, Falls g) {
  if (!out.empty()) {
    Falls& f = out.back();
    if (f.is_leaf() && g.is_leaf() && f.count == 1 && g.count == 1 && f.right + 1 == g.left) {
      f.right = g.right;
      return;
    }
    const Offset step = f.count > 1 ? f.stride : g.count > 1 ? g.stride : g.left - f.left;
    const bool steps_agree = f.count == 1 || g.count == 1 || f.stride == g.stride;
    if (steps_agree && step > f.block_length() && g.left == f.left + f.count * step && same_shape(f, g)) {
      f.stride = step;
      f.count += g.count;
      return;
    }
  }
  out.push_back(std::move(g));
}

struct Repeat {
  std::size_t group = 0;   // members in the group
  std::size_t copies = 0;  // how often it stands there
  Offset distance = 0;
  Offset saved = 0;  // nodes
};

std::size_t count_copies(const FallsSet& set, std::size_t at, std::size_t group, Offset distance) {
  std::size_t copies = 1;
  for (std::size_t next = at + group; next + group <= set.size(); next += group, ++copies) {
    for (std::size_t i = 0; i < group; ++i) {
      if (!is_shifted_copy(set[next - group + i], set[next + i], distance)) return copies;
    }
  }
  return copies;
}

// The repetition at `at` that saves the most nodes.
Repeat find_repeat(const FallsSet& set, std::size_t at) {
  Repeat best;
  Offset nodes = 0;
  Offset first = kMaxBytes;
  Offset end = 0;
  for (std::size_t group = 1; group <= kLongestGroup && at + 2 * group <= set.size(); ++group) {
    const Falls& added = set[at + group - 1];
    nodes += 1 + node_count(added.inner);
    first = std::min(first, added.left);
    end = std::max(end, last_end(added));
    const Offset distance = set[at + group].left - set[at].left;
    if (distance <= 0) continue;
    const std::size_t copies = count_copies(set, at, group, distance);
    // Copies that interleave are worth it only in numbers: two families side by side read better than a crossed nest.
    if (copies < (distance < end - first ? 3U : 2U)) continue;
    const Offset saved = static_cast<Offset>(copies) * nodes - (nodes + 1);
    if (saved > best.saved) best = {group, copies, distance, saved};
  }
  return best;
}

FallsSet fold_repeats(FallsSet set) {
  FallsSet out;
  out.reserve(set.size());
  for (std::size_t at = 0; at < set.size();) {
    const Repeat repeat = find_repeat(set, at);
    if (repeat.copies == 0) {
      out.push_back(std::move(set[at++]));
      continue;
    }
    Falls family{0, 0, repeat.distance, static_cast<Offset>(repeat.copies), {}};
    for (std::size_t i = 0; i < repeat.group; ++i) family.inner.push_back(std::move(set[at + i]));
    tighten(family);
    out.push_back(std::move(family));
    at += repeat.group * repeat.copies;
  }
  return out;
}

FallsSet simplify_once(FallsSet set) {
  FallsSet out;
  out.reserve(set.size());
  for (Falls& falls : set) {
    const bool had_inner = !falls.is_leaf();
    falls.inner = simplify_once(std::move(falls.inner));
    if (had_inner && falls.is_leaf()) continue;  // held no bytes
    while (absorb_only_child(falls)) {
    }
    tighten(falls);
    melt(falls);
    if (falls.count == 1 && !falls.is_leaf()) {
      shift(falls.inner, falls.left);
      for (Falls& child : falls.inner) append_joined(out, std::move(child));
    } else {
      append_joined(out, std::move(falls));
    }
  }
  return fold_repeats(std::move(out));
}

}  // namespace

FallsSet simplify(FallsSet set) {
  for (;;) {
    FallsSet next = simplify_once(set);
    if (next == set) return set;
    set = std::move(next);
  }
}

}  // namespace weir::layout
