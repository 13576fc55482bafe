#pragma once

// Intersection of two spatial trees, by structure.
//
// meet() walks both trees from the roots and hands every common piece to a sink as a run: a segment with a nest of
// loops around it, each loop with its step in the file, in a and in b.  Two families F (coarse: the larger step) and G
// (fine) meet like this:
//
//   - Where blocks of F lie wholly in the range in which G repeats, what block i of F sees of G depends only on the phase
//     (start of block i) mod step(G).  With g = gcd of the steps it recurs every q = step(G) / g blocks, so the blocks fall into at most
//     q classes; each class is one loop of step lcm around what its first block sees.
//   - If the blocks are short against step(G) most classes see nothing: those that do are found from the phases that hit, by the
//     inverse of step(F)/g modulo q, without trying the others.
//   - The at most two blocks of F that reach over an end of G are treated singly.
//
// A single block against a family cuts the family to head, body and tail; the body stays a family.  So the work depends
// on how many nodes there are and how their steps fit, never on how many segments they stand for.

#include <functional>
#include <span>

#include <weir/layout/internal/tree.h>
#include <weir/layout/mapping.h>

namespace weir::layout::internal {

/// A tree as a family of `count` copies: an element (copies: its periods) or part of one.
struct Shape {
  std::shared_ptr<const Tree> tree;
  Node root;  // children are the roots of `tree`; offsets are absolute
};

/// One copy, at offset 0.
Shape make_shape(std::shared_ptr<const Tree> tree);

/// The shapes that make up element bytes [range.from, range.to): one, or up to three where the range cuts periods.  An
/// element without gaps is one segment, whatever its period.
/// \error kTooComplex as make_spatial()
Result<std::vector<Shape>> shapes_of(const Trees& trees, Range range);

/// One run common to both.  Return false to stop.
using RunSink = std::function<bool(const Piece& first, std::span<const Loop> loops)>;

enum class MeetEnd { kDone, kStopped, kOverBudget };

/// Hands to `sink` all bytes of [file.from, file.to) that are in `a` and in `b`, as disjoint runs.  `steps_left` is
/// counted down.
MeetEnd meet(const Shape& a, const Shape& b, Range file, std::size_t& steps_left, const RunSink& sink);

/// The same for two nodes among the siblings of one tree, relative to their parent's block.
MeetEnd meet_siblings(const Tree& tree, const Node& a, const Node& b, std::size_t& steps_left, const RunSink& sink);

}  // namespace weir::layout::internal
