#include <weir/layout/falls.h>

// Rewriting rules, each of which keeps the sequence of bytes (not only the set) and lowers the number of nodes or
// flattens:
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
#include <iterator>

#include <weir/layout/internal/rewrite.h>

namespace weir::layout {

namespace {

using internal::shift;
using internal::tighten;

constexpr std::size_t kLongestGroup = 16;  // neighbours that are tried as one repeated group
constexpr std::size_t kManyMembers = 4096;

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

bool merge(Falls& f, const Falls& g) {
  if (!f.is_leaf() || !g.is_leaf() || f.count > 1 || g.count > 1 || f.right + 1 != g.left) return false;
  f.right = g.right;
  return true;
}

// Joins g with f, which stands before it, where merge or extend applies.
bool join(Falls& f, const Falls& g) {
  if (merge(f, g)) return true;
  const Offset step = f.count > 1 ? f.stride : g.count > 1 ? g.stride : g.left - f.left;
  const bool steps_agree = f.count == 1 || g.count == 1 || f.stride == g.stride;
  if (!steps_agree || step <= f.block_length() || g.left != f.left + f.count * step || !same_shape(f, g)) return false;
  f.stride = step;
  f.count += g.count;
  return true;
}

// Members of a set move forwards, into the room of others that are done with: sets can have many members.
void keep(FallsSet& set, std::size_t& kept, std::size_t at) {
  if (kept != at) set[kept] = std::move(set[at]);
  ++kept;
}

// True if there was something to join.
bool join_neighbours(FallsSet& set) {
  std::size_t kept = 0;
  for (std::size_t at = 0; at < set.size(); ++at) {
    if (kept == 0 || !join(set[kept - 1], set[at])) keep(set, kept, at);
  }
  const bool is_changed = kept < set.size();
  set.resize(kept);
  return is_changed;
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
  for (std::size_t group = 1; group <= kLongestGroup && at + 2 * group <= set.size(); ++group) {
    const Offset distance = set[at + group].left - set[at].left;
    if (distance <= 0) continue;
    // Most groups of irregular sets end here.
    if (group > 1 && set[at + 1].left + distance != set[at + group + 1].left) continue;
    const std::size_t copies = count_copies(set, at, group, distance);
    if (copies < 2) continue;
    Offset nodes = 0;
    Offset first = kMaxBytes;
    Offset end = 0;
    for (std::size_t i = at; i < at + group; ++i) {
      nodes += 1 + node_count(set[i].inner);
      first = std::min(first, set[i].left);
      end = std::max(end, last_end(set[i]));
    }
    // Copies that interleave are worth it only in numbers: two families side by side read better than a crossed nest.
    if (copies < 3 && distance < end - first) continue;
    const Offset saved = static_cast<Offset>(copies) * nodes - (nodes + 1);
    if (saved > best.saved) best = {group, copies, distance, saved};
  }
  return best;
}

// True if there was something to fold.
bool fold_repeats(FallsSet& set) {
  std::size_t kept = 0;
  for (std::size_t at = 0; at < set.size();) {
    const Repeat repeat = find_repeat(set, at);
    if (repeat.copies == 0) {
      keep(set, kept, at++);
      continue;
    }
    Falls family{0, 0, repeat.distance, static_cast<Offset>(repeat.copies), {}};
    for (std::size_t i = 0; i < repeat.group; ++i) family.inner.push_back(std::move(set[at + i]));
    tighten(family);
    set[kept++] = std::move(family);
    at += repeat.group * repeat.copies;
  }
  const bool is_changed = kept < set.size();
  set.resize(kept);
  return is_changed;
}

// Puts the members of blocks that do not repeat into their place.
void promote_members(FallsSet& set) {
  FallsSet out;
  out.reserve(set.size());
  for (Falls& falls : set) {
    if (falls.count > 1 || falls.is_leaf()) {
      out.push_back(std::move(falls));
      continue;
    }
    shift(falls.inner, falls.left);
    std::move(falls.inner.begin(), falls.inner.end(), std::back_inserter(out));
  }
  set = std::move(out);
}

// Whose own members are simple.  True if it changed.
bool simplify_member(Falls& falls) {
  const Falls before{falls.left, falls.right, falls.stride, falls.count, {}};
  bool is_changed = false;
  while (absorb_only_child(falls)) is_changed = true;
  tighten(falls);
  melt(falls);
  return is_changed || falls.left != before.left || falls.right != before.right || falls.stride != before.stride ||
         falls.count != before.count;
}

// True if it changed.
bool simplify_once(FallsSet& set) {
  bool is_changed = false;
  bool has_blocks = false;  // that do not repeat
  std::size_t kept = 0;
  for (std::size_t at = 0; at < set.size(); ++at) {
    Falls& falls = set[at];
    if (!falls.is_leaf()) {
      is_changed = simplify_once(falls.inner) || is_changed;
      if (falls.is_leaf()) continue;  // held no bytes
    }
    is_changed = simplify_member(falls) || is_changed;
    has_blocks = has_blocks || (falls.count == 1 && !falls.is_leaf());
    keep(set, kept, at);
  }
  is_changed = is_changed || has_blocks || kept < set.size();
  set.resize(kept);
  if (has_blocks) promote_members(set);
  is_changed = join_neighbours(set) || is_changed;
  return fold_repeats(set) || is_changed;
}

// Whether to read all of a long list is worth the little that would be found.  A few stretches tell: only neighbours
// are ever joined or folded.
bool is_irregular(const FallsSet& set) {
  constexpr std::size_t kStretches = 8;
  constexpr std::size_t kMembers = 256;
  if (set.size() <= kManyMembers) return false;
  std::size_t left = 0;
  for (std::size_t i = 0; i < kStretches; ++i) {
    const auto first = set.begin() + static_cast<std::ptrdiff_t>(i * (set.size() - kMembers) / (kStretches - 1));
    FallsSet stretch(first, first + kMembers);
    simplify_once(stretch);
    left += stretch.size();
  }
  return left > kStretches * kMembers / 4 * 3;
}

}  // namespace

void append_joined(FallsSet& set, Falls falls) {
  if (!set.empty() && merge(set.back(), falls)) return;
  // Nothing will merge with the last member any more.
  if (set.size() > 1 && join(*(set.end() - 2), set.back())) set.pop_back();
  set.push_back(std::move(falls));
}

FallsSet simplify(FallsSet set) {
  while (!is_irregular(set) && simplify_once(set)) {
  }
  return set;
}

FallsSet internal::simpler(const FallsSet& set) {
  if (is_irregular(set)) return {};
  FallsSet copy = set;
  return simplify_once(copy) ? simplify(std::move(copy)) : FallsSet{};
}

}  // namespace weir::layout
