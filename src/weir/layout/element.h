#pragma once

#include <memory>
#include <optional>

#include <weir/layout/falls.h>

namespace weir::layout {

namespace internal {
class Trees;  // the element compiled for look-ups
}

/// An ordered sequence of file bytes with a linear address space of its own: a set of nested FALLS, placed at a
/// displacement and repeated for ever with a period.
///
/// Element offset y and file offset x: y counts the bytes of the sequence, period after period.  A subfile is an
/// element of a file's layout, a view is an element that a process reads and writes through; the type is the same.
///
/// Immutable; copies share.  \threadsafety Safe from any thread.
class Element {
 public:
  struct Placement {
    Offset disp = 0;
    Offset period = 0;  ///< 0: the extent of the set
  };

  /// The empty element: no bytes, period 1.
  Element();

  /// \error kInvalidArgument if `set` fails check(), holds a byte twice, or reaches beyond the period;
  /// kOutOfRange beyond 2^62; kTooComplex if the pattern interleaves in a way that needs too many parts.
  static Result<Element> create(FallsSet set, Placement placement);

  [[nodiscard]] Offset disp() const noexcept;
  [[nodiscard]] Offset period() const noexcept;
  [[nodiscard]] Offset size() const noexcept;  ///< Bytes per period.
  [[nodiscard]] bool is_empty() const noexcept { return size() == 0; }
  [[nodiscard]] const FallsSet& falls() const noexcept;  ///< Of one period, relative to disp(), as given.

  /// Bytes of the element below 2^62, the end of every file.
  [[nodiscard]] Offset limit() const noexcept;

  /// True if element order is file order.
  [[nodiscard]] bool is_monotone() const noexcept;
  /// True if it holds all bytes from disp() on, in order: it then repeats after any number of bytes, whatever its
  /// period.
  [[nodiscard]] bool is_endless() const noexcept;

  /// The element offset of file byte x; nothing if x is not on the element.  No allocation.
  [[nodiscard]] std::optional<Offset> map(Offset x) const noexcept;
  /// The same for the closest byte of the element at or after x (at or before x); nothing if there is none.
  [[nodiscard]] std::optional<Offset> map_next(Offset x) const noexcept;
  [[nodiscard]] std::optional<Offset> map_previous(Offset x) const noexcept;

  /// The file offset of element byte y; nothing if y is negative or the byte lies beyond 2^62.  No allocation.
  [[nodiscard]] std::optional<Offset> unmap(Offset y) const noexcept;

  /// The file bytes that [y, ...) starts with: the maximal segment from y on, clipped to `most` bytes.
  /// Length 0 if unmap(y) is nothing.
  [[nodiscard]] Segment segment_at(Offset y, Offset most) const noexcept;

  /// Bytes of the element below file offset x.  For a file of x bytes: the size of this subfile.
  [[nodiscard]] Offset count_below(Offset x) const noexcept;

  /// True if element bytes [from, to) are one segment of the file, in order.  An empty range is contiguous.
  [[nodiscard]] bool is_contiguous(Offset from, Offset to) const noexcept;
  /// True if the element holds every file byte of [x, x_end) (the literature's "contiguous between l and r").
  [[nodiscard]] bool covers(Offset x, Offset x_end) const noexcept;

  [[nodiscard]] const internal::Trees& trees() const noexcept { return *trees_; }

 private:
  explicit Element(std::shared_ptr<const internal::Trees> trees) : trees_(std::move(trees)) {}
  std::shared_ptr<const internal::Trees> trees_;
};

/// MAP_b(UNMAP_a(y)): the offset in b of the byte that is at offset y of a; nothing if b does not hold it.
[[nodiscard]] std::optional<Offset> map_between(const Element& a, Offset y, const Element& b) noexcept;

/// Walks the file segments of element range [from, to) in element order; each is maximal.
///
///     for (SegmentCursor cursor{element, from, to}; auto segment = cursor.next();) use(*segment);
class SegmentCursor {
 public:
  SegmentCursor(const Element& element, Offset from, Offset to) noexcept : element_(element), at_(from), to_(to) {}
  std::optional<Segment> next() noexcept;

 private:
  Element element_;
  Offset at_;
  Offset to_;
};

}  // namespace weir::layout
