#pragma once

// A plan as a program: nests of loops around a kernel, and a tree over the nests that share their outermost loops.
//
//   nest    `length` bytes at (source, target), repeated by loops.  Loops are kept in key order, slowest first, so that a range of
//           the key cuts off whole turns; they are *run* in the order that is best for the memory (see order_loops()).
//   scope   nests that share a loop.  Run one after the other over all its turns, each would drag the same cache lines through
//           the cache again; so a scope runs all its nests over as many turns as fit the cache, then the next ones.
//   list    pieces without loops, side by side: irregular patterns, and nests whose loops are too short to be worth entering.
//   batch   a part of a list: pieces of one length that are adjacent in the key need one offset each, others three numbers.

#include <vector>

#include <weir/transfer/internal/kernels.h>
#include <weir/transfer/plan.h>

namespace weir::transfer::internal {

/// Which side ranges are given in.
enum class Key { kSource, kTarget };

struct Block {
  Offset source = 0;
  Offset target = 0;
  Offset length = 0;
};

struct Nest {
  Offset source = 0;
  Offset target = 0;
  Offset length = 0;
  std::uint32_t first_loop = 0;  // Program::loops_, key order; and Program::order_, run order
  std::uint32_t loop_count = 0;
  Kernel kernel = nullptr;
  TileKernel tile = nullptr;  // for the two innermost loops of the run order; null: one at a time
};

// Pieces [first, first + count) of Program::pieces_, or of Program::index_ if they have one length.
struct Batch {
  Offset source = 0;  // what offsets are relative to
  Offset target = 0;
  Offset length = 0;  // of every piece; 0: pieces have their own
  Offset extent = 0;  // key bytes from the first to the last
  IndexKernel by_index = nullptr;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

// Nests [first, first + count) share their first `depth + 1` loops.  One nest: a leaf.  A list: the batches [first,
// first + count).
struct Scope {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t depth = 0;
  std::uint32_t first_child = 0;
  std::uint32_t child_count = 0;
  bool is_list = false;
  bool is_listed = false;  // the only child is a list, and running it turn by turn is faster than the nests
  Offset key = 0;          // of the first byte, relative to the turn of all outer loops
  Offset extent = 0;       // key bytes from there to the end of the last turn
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

  void run(Address source, Address target, Range range, bool bypass) const;

  Offset bytes = 0;
  Offset pieces = 0;  // set to those of all loops; an endless program counts one period
  Offset working_set = 0;
  Offset footprint = 0;  // bytes per period that go through the caches: whole lines, both sides

  [[nodiscard]] std::size_t nest_count() const { return nests_.size() + (batches_.empty() ? 0 : 1); }
  [[nodiscard]] Key key() const { return key_; }
  [[nodiscard]] bool is_contiguous() const { return is_contiguous_; }
  /// The first block: all there is of a contiguous program.
  [[nodiscard]] const Block& first() const { return first_; }

 private:
  friend class ProgramBuilder;
  class Runner;

  Key key_;
  bool is_contiguous_ = false;
  Block first_;
  std::vector<Nest> nests_;
  std::vector<Step> loops_;
  std::vector<std::uint8_t> order_;  // per nest: indices of its loops in run order
  std::vector<Batch> batches_;
  std::vector<ListPiece> pieces_;
  std::vector<std::int32_t> index_;
  ListKernel copy_list_ = nullptr;
  std::vector<Scope> scopes_;  // roots first
  std::uint32_t root_count_ = 0;
  bool is_nest_ = false;  // there is one nest with loops, and nothing else
};

}  // namespace weir::transfer::internal
