#pragma once

// Data representations: how values look in the file.  `native` and `internal` are the bytes of memory and need no
// object.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/mpiio/internal/datatype.h>
#include <weir/mpiio/internal/errors.h>

namespace weir::mpiio::internal {

/// What a program passes to read from or write to; only written to if it is read into.
struct Buffer {
  void* data = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type = MPI_BYTE;
};

/// \threadsafety Safe from any thread.
class Representation {
 public:
  virtual ~Representation() = default;
  /// How long basic types are in the file.
  [[nodiscard]] virtual LeafSize leaf_size() const = 0;
  /// The items of `buffer`, one after the other, as they are in the file: item_bytes each.
  virtual Status encode(const Buffer& buffer, Offset item_bytes, std::vector<std::byte>& file) const = 0;
  virtual Status decode(const std::vector<std::byte>& file, Offset item_bytes, const Buffer& buffer) const = 0;
};

/// Null for native and internal.  \error MPI_ERR_UNSUPPORTED_DATAREP names those there are
Status find_representation(const std::string& name, std::shared_ptr<const Representation>& found);

/// A conversion function whose counts are int, or large: it never gets one that is no int.
using Conversion = std::function<int(void*, MPI_Datatype, int, void*, MPI_Offset, void*)>;
/// A user's own functions.  Basic types must be as long in the file as in memory, or as in external32.
struct Conversions {
  Conversion read;  ///< MPI_CONVERSION_FN_NULL, and so empty: the bytes as they are.
  Conversion write;
  MPI_Datarep_extent_function* extent = nullptr;
  void* extra = nullptr;
};
/// \error MPI_ERR_DUP_DATAREP; MPI_ERR_ARG; MPI_ERR_UNSUPPORTED_DATAREP for other lengths
Status register_representation(const std::string& name, const Conversions& conversions);

}  // namespace weir::mpiio::internal
