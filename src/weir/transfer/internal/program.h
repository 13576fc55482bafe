#pragma once

// A plan as a program: nests of loops around a kernel, and a tree over the nests that share their outermost loops.
//
//   nest    `length` bytes at (source, target), repeated by loops.  Loops are kept in key order, slowest first, so that a range of
//           the key cuts off whole turns; they are *run* in the order that is best for the memory (see order_loops()).
//   scope   nests that share a loop.  Run one after the other over all its turns, each would drag the same cache lines through
//           the cache again; so a scope runs all its nests over as many turns as fit the cache, then the next ones.
//   list    pieces without loops, side by side: irregular patterns.

#include <algorithm>
#include <cstring>
#include <vector>

#include <weir/transfer/internal/kernels.h>
#include <weir/transfer/plan.h>

namespace weir::transfer::internal {

/// Which side ranges are given in.
enum class Key { kSource, kTarget };

struct Nest {
  Offset source = 0;
  Offset target = 0;
  Offset length = 0;
  std::uint32_t first_loop = 0;  // Program::loops_, key order; and Program::order_, run order
  std::uint32_t loop_count = 0;
  Kernel kernel = nullptr;
  TileKernel tile = nullptr;  // for the two innermost loops of the run order; null: one at a time
};

struct Single {
  Offset source;
  Offset target;
  Offset length;
};

// Nests [first, first + count) share their first `depth + 1` loops.  One nest: a leaf.  No nest: the singles [first, ...).
struct Scope {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t depth = 0;
  std::uint32_t first_child = 0;
  std::uint32_t child_count = 0;
  bool is_list = false;
  Offset key = 0;     // of the first byte, relative to the turn of all outer loops
  Offset extent = 0;  // key bytes from there to the end of the last turn
  Offset turn_extent = 0;
  Offset chunk = 1;  // turns that fit the cache
};

class Program {
 public:
  struct Input {
    Offset source;
    Offset target;
    Offset length;
    std::vector<Step> loops;
  };

  Program(std::vector<Input> inputs, Key key);

  void run(const Source& source, const Target& target, Range range, bool bypass) const;

  /// \pre is_contiguous
  void run_contiguous(const Source& source, const Target& target, Range range) const {
    const Offset shift = key_ == Key::kSource ? 0 : only_.target - only_.source;  // from key to source
    const Offset first = key_ == Key::kSource ? only_.source : only_.target;
    const Offset from = std::max(range.from, first);
    const Offset length = std::min(range.to, first + only_.length) - from;
    if (length <= 0) return;
    const Offset at = from - shift;
    std::memcpy(static_cast<std::byte*>(target.data) + (at + only_.target - only_.source - target.origin),
                static_cast<const std::byte*>(source.data) + (at - source.origin), static_cast<std::size_t>(length));
  }

  Offset bytes = 0;
  Offset pieces = 0;
  Offset working_set = 0;
  Offset footprint = 0;  // bytes per period that go through the caches: whole lines, both sides
  bool is_contiguous = false;

  [[nodiscard]] std::size_t nest_count() const { return nests_.size() + (singles_.empty() ? 0 : 1); }
  [[nodiscard]] Key key() const { return key_; }

 private:
  friend class ProgramBuilder;
  class Runner;

  Key key_;
  Single only_{};  // the first input: all there is of a contiguous plan
  std::vector<Nest> nests_;
  std::vector<Step> loops_;
  std::vector<std::uint8_t> order_;  // per nest: indices of its loops in run order
  std::vector<Single> singles_;
  std::vector<Scope> scopes_;  // roots first
  std::uint32_t root_count_ = 0;
  bool is_stride_ = false;  // one nest with one loop whose blocks are adjacent in the key
};

}  // namespace weir::transfer::internal
