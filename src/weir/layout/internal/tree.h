#pragma once

// An element compiled for look-ups: FALLS trees as flat arrays.
//
// Two forms of the same sequence of bytes.  Every node is a family of blocks with a step in the file (x) and a step in
// the element (y), both relative to the block of the parent:
//
//   sequence form   siblings in element order, as the FALLS are written; answers "where is element byte y?"
//   spatial form    siblings in file order, loops nested by decreasing file step, so that the blocks of one node never overlap:
//                   x_step >= length; answers "which element byte is file byte x?" and is what intersection works on
//
// For a monotone element the two are the same.  Otherwise the spatial form is made by exchanging loops: a loop with a
// step shorter than its block moves inwards until it is nested properly.  Where no order of two loops is proper (steps
// 2 and 3), the one with fewer turns is unrolled into siblings.  Siblings of the spatial form may interleave with each
// other.
//
// All blocks are tight: the first byte of a node's first block is at x, the last of a block at length - 1.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <weir/layout/falls.h>

namespace weir::layout::internal {

struct Node {
  Offset x = 0;  // of the first block, relative to the parent's block
  Offset y = 0;
  Offset length = 0;  // of one block, in the file
  Offset count = 1;
  Offset x_step = 0;  // 0 where count is 1
  Offset y_step = 0;
  Offset bytes = 0;   // of the element in one block
  Offset before = 0;  // bytes of all earlier siblings together
  Offset reach = 0;   // the furthest end of this and all earlier siblings
  std::uint32_t first_child = 0;
  std::uint32_t child_count = 0;

  [[nodiscard]] bool is_leaf() const noexcept { return child_count == 0; }
  [[nodiscard]] Offset end() const noexcept { return x + (count - 1) * x_step + length; }
};

/// Nodes of a forest, siblings side by side; the roots come first.
struct Tree {
  std::vector<Node> nodes;
  std::uint32_t root_count = 0;
};

/// A byte of the pattern and its place in the element.
struct Place {
  Offset x;
  Offset y;
};

// Look-ups among `count` siblings from nodes[first] on, spatial form; offsets relative to the parent's block.
std::optional<Offset> find(const Tree& tree, std::uint32_t first, std::uint32_t count, Offset x) noexcept;
std::optional<Place> find_next(const Tree& tree, std::uint32_t first, std::uint32_t count, Offset x) noexcept;
std::optional<Place> find_previous(const Tree& tree, std::uint32_t first, std::uint32_t count, Offset x) noexcept;
Offset count_below(const Tree& tree, std::uint32_t first, std::uint32_t count, Offset x) noexcept;

struct Located {
  Offset x;
  Offset rest;  // bytes from here to the end of the leaf block, at least 1
};
/// Sequence form.  \pre 0 <= y < bytes of the tree
Located locate(const Tree& tree, Offset y) noexcept;

/// A tree of the spatial form, and the lowest byte that was seen to occur twice while making it (not all are seen here:
/// see first_duplicate()).
struct Spatial {
  Tree tree;
  std::optional<Offset> duplicate;
};

bool is_monotone(const FallsSet& simplified) noexcept;
Tree make_sequence(const FallsSet& simplified);
/// \error kTooComplex if loops must be unrolled into more than `most_nodes` nodes.
Result<Spatial> make_spatial(const FallsSet& simplified, std::size_t most_nodes = std::size_t{1} << 20);

class Trees {
 public:
  FallsSet falls;    // as given
  FallsSet simpler;  // empty if there is nothing simpler
  Offset disp = 0;
  Offset period = 1;
  Offset size = 0;
  bool monotone = true;
  bool endless = false;  // all bytes from disp on, in order
  Tree sequence;         // empty if monotone: `spatial` serves
  std::shared_ptr<const Tree> spatial;

  /// What the trees are made from.
  [[nodiscard]] const FallsSet& simplified() const noexcept { return simpler.empty() ? falls : simpler; }
  [[nodiscard]] const Tree& by_element() const noexcept { return monotone ? *spatial : sequence; }
};

}  // namespace weir::layout::internal
