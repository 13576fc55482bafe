#pragma once

// Which part of a dimension of a block-cyclically distributed matrix a process holds.

#include <vector>

#include <weir/layout/element.h>

namespace weir::scalapack::internal {

/// One dimension: indices [first, first + extent) of those that are dealt in blocks to processes in turn, beginning
/// with `source`.
struct Dealing {
  Offset extent = 0;
  Offset first = 0;
  Offset block = 1;
  Offset processes = 1;
  Offset source = 0;
};

/// Indices [left + i * stride, ... + length) for i < count, relative to Dealing::first.
struct Family {
  Offset left = 0;
  Offset length = 0;
  Offset stride = 0;
  Offset count = 1;
  friend bool operator==(const Family&, const Family&) = default;
};

struct Share {
  std::vector<Family>
      families;            ///< Ascending: the first block if it is cut, whole blocks, the last block if it is cut.
  Offset count = 0;        ///< Indices in all.
  Offset local_first = 0;  ///< Local index of the first one; the others follow it without gaps.
};

/// \pre 0 <= coordinate < processes, block > 0, extent >= 0, first >= 0
Share share_of(const Dealing& dealing, Offset coordinate);

/// The share as an element of the whole dimension, indices of `unit` bytes: byte y of the element is byte local_first *
/// unit + y of the local array.
/// \error kOutOfRange beyond 2^62 bytes.
Result<layout::Element> element_of(const Share& share, Offset extent, Offset unit);

}  // namespace weir::scalapack::internal
