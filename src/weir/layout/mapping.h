#pragma once

#include <memory>
#include <span>

#include <weir/layout/element.h>

namespace weir::layout {

/// A half-open range of offsets, [from, to).
struct Range {
  Offset from = 0;
  Offset to = kMaxBytes;
};

/// Which bytes an intersection is asked for: all three must hold.
struct Window {
  Range file;  ///< File offsets.
  Range a;     ///< Offsets of element a.
  Range b;     ///< Offsets of element b.
};

/// One loop of a run: `count` steps that advance by these many bytes in the file and in each element.
struct Loop {
  Offset count;
  Offset file;
  Offset a;
  Offset b;
  friend bool operator==(const Loop&, const Loop&) = default;
};

/// A nested family of equally long pieces common to two elements: at every combination of loop indices, `length` bytes
/// that are contiguous in the file and in both elements.  Loops are ordered by decreasing step in the file.
struct Run {
  Offset file;
  Offset a;
  Offset b;
  Offset length;
  std::uint32_t first_loop;  ///< Into Mapping::loops().
  std::uint32_t loop_count;
};

/// Bounds on the work for one intersection, so that memory and time stay bounded for patterns that do not fit together.
/// 0 chooses by the operands: 65536 runs and 2^20 steps, and some for each of their FALLS nodes.
struct Budget {
  std::size_t runs = 0;
  std::size_t steps = 0;
};

/// The exact map between two elements: which bytes of the one are which bytes of the other.
///
/// A union of disjoint runs.  Built by intersect() over one common period, it repeats for ever from disp() on: every
/// period() bytes of the file, a advances by a_period() and b by b_period().  Built over a window, it is finite.
///
/// Immutable.  \threadsafety Safe from any thread.
class Mapping {
 public:
  [[nodiscard]] std::span<const Run> runs() const noexcept { return runs_; }
  [[nodiscard]] std::span<const Loop> loops(const Run& run) const noexcept {
    return std::span(loops_).subspan(run.first_loop, run.loop_count);
  }

  [[nodiscard]] bool is_empty() const noexcept { return runs_.empty(); }
  [[nodiscard]] bool is_periodic() const noexcept { return period_ != 0; }
  [[nodiscard]] Offset disp() const noexcept { return disp_; }
  [[nodiscard]] Offset period() const noexcept { return period_; }  ///< 0: finite
  [[nodiscard]] Offset a_period() const noexcept { return a_period_; }
  [[nodiscard]] Offset b_period() const noexcept { return b_period_; }

  [[nodiscard]] Offset bytes() const noexcept;            ///< In one period, or in all.
  [[nodiscard]] std::size_t node_count() const noexcept;  ///< FALLS nodes: a run of k loops is a nest of max(k, 1).

  /// The same bytes as FALLS, ascending where families do not interleave, simplified: in the file (relative to disp()),
  /// and the projections on the address spaces of a and of b.
  [[nodiscard]] FallsSet file_falls() const;
  [[nodiscard]] FallsSet a_falls() const;
  [[nodiscard]] FallsSet b_falls() const;

 private:
  friend class MappingBuilder;
  std::vector<Run> runs_;
  std::vector<Loop> loops_;
  Offset disp_ = 0;
  Offset period_ = 0;
  Offset a_period_ = 0;
  Offset b_period_ = 0;
};

/// The mapping over one common period, from the larger displacement on: the least common multiple of both, or that of
/// the one if the other has no gaps.  Cost depends on the number of FALLS nodes and on how the strides fit, not on
/// bytes or segments.
/// \error kTooComplex if the budget does not suffice or the common period exceeds 2^62: use a window or a PieceCursor.
Result<Mapping> intersect(const Element& a, const Element& b, const Budget& budget = {});

/// The mapping inside a window; finite.
Result<Mapping> intersect(const Element& a, const Element& b, const Window& window, const Budget& budget = {});

/// The composition of a mapping with a map of memory: offsets of a (of b) become offsets in memory where the element's
/// bytes do not lie packed but as `memory` says, byte y at memory.unmap(y).  `file` of the result is the offset of a
/// (of b) that was replaced.  Of a periodic mapping, one period; the result is finite.
/// \error kTooComplex as intersect()
Result<Mapping> compose_a(const Mapping& mapping, const Element& memory, const Budget& budget = {});
Result<Mapping> compose_b(const Mapping& mapping, const Element& memory, const Budget& budget = {});

/// Some byte range of b that is also of a: bytes at offset `a` of the one are bytes at offset `b` of the other.
struct Piece {
  Offset file;  ///< Of the first byte.
  Offset a;
  Offset b;
  Offset length;
  friend bool operator==(const Piece&, const Piece&) = default;
};

enum class Order { kFile, kA, kB };

/// Walks the pieces common to two elements inside a window, in the order asked for, without listing them first.
///
/// Pieces are maximal: neighbours that continue each other in both elements come as one.  (In file order they must
/// continue each other in the file too.)  Memory is bounded by `budget` whatever the periods: a window that needs more
/// runs than that is worked on part by part.
class PieceCursor {
 public:
  PieceCursor(const Element& a, const Element& b, Order order, const Window& window = {}, const Budget& budget = {});
  ~PieceCursor();
  PieceCursor(PieceCursor&&) noexcept;
  PieceCursor& operator=(PieceCursor&&) noexcept;

  /// The next piece; nothing at the end.
  std::optional<Piece> next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::layout
