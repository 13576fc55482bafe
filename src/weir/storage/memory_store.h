#pragma once

// Subfiles in memory, which clients on the same host can map.
//
//   up to 64 KiB         ordinary heap memory: no descriptor, no page of its own
//   larger, or shared    an anonymous file of its own, as share/shared_memory.h describes
//   beyond 64 GiB        blocks of heap memory: reached by read() and write() only
//
// Room is counted in pages and blocks, so holes are free; pages come to exist when somebody writes there.  Memory that
// was never used is slow to touch for the first time, so a thread of the store makes some ahead: a few anonymous files
// for subfiles to begin in.  Files are never used again for another subfile: peers may still have them mapped.

#include <memory>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/storage/store.h>

namespace weir::storage {

struct MemoryStoreOptions {
  Offset capacity_bytes = 0;  ///< 0: half of the machine's memory.
  int pool_regions = 4;       ///< Anonymous files kept ready, of each size; 0: nothing is faulted in ahead, no thread.
  Offset pool_region_bytes = Offset{1} << 20;  ///< Of the smallest size; and 2 to 32 times that.  All
                                               ///< together never take more than a quarter of the room left.
  bool verifies = false;                       ///< Shared memory has checksums: share/block_sums.h.
  bool is_eager = false;                       ///< From the start, not from the first subfile of more than 64 KiB on.
  runtime::Runtime runtime = runtime::system_runtime();
};

/// As many of each size as take no more than `bytes` together.
int pool_regions_for(Offset bytes, Offset region_bytes);

/// \error kInvalidArgument if an option is negative or a region larger than can be mapped
Result<std::unique_ptr<Store>> make_memory_store(const MemoryStoreOptions& options);

}  // namespace weir::storage
