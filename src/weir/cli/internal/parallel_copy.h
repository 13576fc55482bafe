#pragma once

// Copies a range in chunks by several threads, so that an interrupted copy can go on: at any moment all chunks below a
// frontier are done, and none beyond frontier + window is begun.  The first n - window bytes of a partial copy of n
// bytes are good.

#include <functional>
#include <span>

#include <weir/base/checked.h>
#include <weir/base/result.h>

namespace weir::cli::internal {

struct CopyOptions {
  int jobs = 4;
  Offset chunk_bytes = Offset{4} << 20;
  std::function<void(Offset done)> progress;  ///< Called by one thread at a time.

  [[nodiscard]] Offset window_bytes() const { return 2 * jobs * chunk_bytes; }
};

/// Copies bytes [offset, offset + buffer.size()), using `buffer`.  Called from several threads.
using CopyChunk = std::function<Status(Offset offset, std::span<std::byte> buffer)>;

/// Calls `copy` for all chunks of [from, to).  Stops at the first error, or with kInterrupted after Ctrl-C.
Status copy_in_parallel(Offset from, Offset to, const CopyOptions& options, const CopyChunk& copy);

}  // namespace weir::cli::internal
