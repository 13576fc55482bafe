#pragma once

// What MPI calls a type map, as FALLS, and the two operations that every MPI constructor consists of.
//
// The standard defines a datatype as a sequence of (basic type, displacement).  Only the bytes matter here, so a type
// map is a sequence of byte displacements in the order in which the bytes travel, held as FALLS: `repeat` puts a loop
// around it, a `Sequence` puts type maps one after the other.  Displacements may be negative, offsets of FALLS may not:
// `falls` starts at 0 and `origin` says where that is.
//
// Corner cases: a type without bytes has empty FALLS and still may have an extent (markers); bytes that occur twice are
// legal in MPI when they are only read, and expressible as FALLS, but not as an element; loops that go backwards are
// written out as long as they are short; what cannot be written down has a `shape` that says why, and all its numbers
// nevertheless.

#include <weir/layout/falls.h>

namespace weir::mpiio::internal {

/// One item of a datatype.
struct Typemap {
  Offset size = 0;         ///< Bytes of data.
  Offset lower_bound = 0;  ///< As MPI_Type_get_extent says.
  Offset extent = 0;       ///< From one item to the next; MPI allows any number, negative too.
  Offset origin = 0;       ///< Displacement of the lowest byte, which is offset 0 of `falls`: MPI's true lower bound.
  Offset true_extent = 0;  ///< From the lowest byte to the end of the highest.
  bool has_markers =
      false;  ///< The bounds were set (resized, subarray, darray) and win over bounds that follow from data.
  bool is_monotone = true;  ///< Displacements ascend and no byte occurs twice.
  layout::FallsSet falls;   ///< The bytes in type map order, lowest at 0.  Empty if `shape` is an error.
  Status shape;             ///< An error: FALLS cannot express the type (it says why); use MPI_Pack.

  [[nodiscard]] Offset upper_bound() const noexcept { return lower_bound + extent; }
  /// The bytes are one segment, in order.
  [[nodiscard]] bool is_contiguous() const noexcept { return is_monotone && size == true_extent; }
};

/// `bytes` bytes at displacement 0: a basic type.
Typemap segment(Offset bytes);

/// `item`, then the same moved by `stride`, ...: `count` times in all.  Nothing at all if count is 0.
/// \error kOutOfRange if a displacement leaves +-2^62
Result<Typemap> repeat(Typemap item, Offset count, Offset stride);

/// Type maps one after the other, each moved to its place.
class Sequence {
 public:
  /// Makes room for about so many parts.
  void reserve(std::size_t parts) { whole_.falls.reserve(parts); }
  /// \error kOutOfRange if a displacement leaves +-2^62
  Status add(const Typemap& part, Offset at);
  /// The whole, simplified.  To be called once.
  Result<Typemap> finish();

 private:
  struct Hull {
    Offset low = kMaxBytes;
    Offset high = -kMaxBytes;
    void include(Offset from, Offset to) noexcept;
    [[nodiscard]] bool is_empty() const noexcept { return low == kMaxBytes && high == -kMaxBytes; }
  };

  void add_falls(const Typemap& part, Offset at);

  Typemap whole_;  // its falls at their displacements, which may be negative until finish()
  Hull bytes_;     // of the data
  Hull natural_;   // bounds of parts without markers
  Hull markers_;   // bounds of parts with markers
  Offset nodes_ = 0;
};

}  // namespace weir::mpiio::internal
