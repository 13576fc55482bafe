#pragma once

// A view that shows bytes more than once, for files that are open for reading only.  An element cannot
// hold a byte twice, so such a view is a list of pieces, and is read piece by piece.

#include <optional>
#include <vector>

#include <weir/base/result.h>
#include <weir/layout/falls.h>

namespace weir::pario {

/// Immutable.  \threadsafety Safe from any thread.
class OverlappingView {
 public:
  /// Items that consist of `falls`, the first from `disp` on, each `extent` bytes after the one before.
  /// \pre extent > 0 and there is at least one byte
  /// \error kInvalidArgument if displacements decrease, kTooComplex if there are too many pieces
  static Result<OverlappingView> create(Offset disp, const layout::FallsSet& falls, Offset extent);

  /// Bytes of one item.
  [[nodiscard]] Offset item_bytes() const { return starts_.back(); }
  /// The file offset of byte y of the view; nothing if it lies beyond 2^62.
  [[nodiscard]] std::optional<Offset> unmap(Offset y) const;
  /// The first byte of the view that lies at or behind byte x of the file.
  [[nodiscard]] Offset count_below(Offset x) const;
  /// Bytes [from, from + bytes) of the view, each piece as a segment of the file.
  /// \error kOutOfRange beyond 2^62
  [[nodiscard]] Result<std::vector<layout::Segment>> pieces(Offset from, Offset bytes) const;

 private:
  Offset disp_ = 0;
  Offset extent_ = 0;
  Offset top_ = 0;                       // one past the highest byte of an item
  std::vector<layout::Segment> pieces_;  // of one item, relative to its start
  std::vector<Offset> starts_;           // where each starts in the view; and where the next item does
};

}  // namespace weir::pario
