#pragma once

// Families of line segments: the vocabulary of every pattern in Weir.
//
//   segment   [x, x + length)                                  contiguous bytes
//   FALLS     (l, r, s, n)        n segments [l + i*s, r + i*s], i = 0 .. n-1, ends inclusive
//   nested    (l, r, s, n, {I})   in each of the n blocks only the bytes of the set I, relative to the block's left end
//   set       {f, g, ...}         the bytes of f, then those of g, ...: a *sequence*, in the order written
//
// The order is part of the meaning: {(4,5,-,1),(0,1,-,1)} and {(0,1,-,1),(4,5,-,1)} hold the same bytes in another
// order, and {(0,0,4,2),(2,2,4,2)} is the sequence 0 4 2 6.  Blocks of a nested FALLS may interleave (s shorter than
// the block) as long as no byte occurs twice: (0,12,1,4,{(0,0,4,4)}) walks a 4 x 4 array of bytes column by column.
//
// Corner cases: the empty set is a legal sequence of no bytes; n = 1 makes s meaningless (written `-`); n = 0, l > r,
// negative offsets and a block that does not hold its inner set are errors, as is all that leaves [0, 2^62].

#include <vector>

#include <weir/base/checked.h>

namespace weir::layout {

/// A contiguous byte range, [offset, offset + length).
struct Segment {
  Offset offset = 0;
  Offset length = 0;

  [[nodiscard]] Offset end() const noexcept { return offset + length; }
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct Falls;
using FallsSet = std::vector<Falls>;

/// One nested FALLS, ends inclusive as in the literature.
struct Falls {
  Offset left = 0;
  Offset right = 0;
  Offset stride = 0;  ///< Meaningless, and kept 0, where count is 1.
  Offset count = 1;
  FallsSet inner;  ///< Empty: the block is all bytes.

  [[nodiscard]] Offset block_length() const noexcept { return right - left + 1; }
  [[nodiscard]] bool is_leaf() const noexcept { return inner.empty(); }
  friend bool operator==(const Falls&, const Falls&) = default;
};

/// Deepest nesting that is accepted from outside.
inline constexpr int kMaxDepth = 64;

/// Checks what can be seen without looking at single bytes: counts, strides, ends, nesting, range.
/// Fills in nothing; a `stride` of a single block is ignored.
/// \error kInvalidArgument names the FALLS and what is wrong with it; kOutOfRange if a byte lies beyond 2^62.
Status check(const FallsSet& set);

/// Bytes in the sequence.  \pre check(set) is ok.
Offset size(const FallsSet& set) noexcept;
Offset size(const Falls& falls) noexcept;

/// One past the highest byte that belongs to the set; 0 for the empty set.  \pre check(set) is ok.
Offset extent(const FallsSet& set) noexcept;

/// Number of FALLS in the tree.
Offset node_count(const FallsSet& set) noexcept;

/// Puts `falls` behind the set.  Joins neighbours as simplify() does, so that long lists are short from the beginning.
/// \pre check() of the set and of `falls` is ok, but for offsets below 0.
void append_joined(FallsSet& set, Falls falls);

/// An equal sequence with fewer nodes where one of these applies: adjacent leaves merge, children move up, equal
/// neighbours fold into a family, nested families with fitting strides become one.  Idempotent; never more nodes than
/// before.  Lists of thousands of members of which hardly any would go are left as they are.
/// \pre check(set) is ok.
FallsSet simplify(FallsSet set);

/// The bytes of `set` in [first, last], relative to `first`, in the order of `set`; simplified.
/// \pre check(set) is ok and 0 <= first <= last.
FallsSet cut(const FallsSet& set, Offset first, Offset last);

/// Items [from, to) of the sequence, in the order of `set`, at their own offsets.
/// \pre check(set) is ok and 0 <= from <= to <= size(set).
FallsSet subsequence(const FallsSet& set, Offset from, Offset to);

}  // namespace weir::layout
