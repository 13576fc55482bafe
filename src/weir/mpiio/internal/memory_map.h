#pragma once

#include <weir/layout/element.h>
#include <weir/mpiio/internal/typemap.h>

namespace weir::mpiio::internal {

/// Where the bytes of (buffer, count, datatype) lie: byte k of the message is at buffer + shift + element.unmap(k).
struct MemoryMap {
  Offset bytes = 0;  ///< Of the message.
  Offset shift = 0;
  bool is_contiguous = true;  ///< The message lies at buffer + shift in one piece.
  layout::Element element;
  /// An error: no element can express the memory (bytes that occur twice, long ways backwards), which the message says.
  /// All but `bytes` is meaningless then: pack and unpack by MPI.
  Status direct;
};

/// \pre count >= 0
/// \error kOutOfRange if the message or an address leaves +-2^62
Result<MemoryMap> memory_map(Offset count, const Typemap& type);

}  // namespace weir::mpiio::internal
