#pragma once

// Any store, as slow as a disk with one head: makes the physics of disks visible in tests and benchmarks, whatever the
// machine has.
//
//   an access costs     seek, unless it begins where the last one ended in the same subfile
//                       + its bytes / rate
//
// Pieces of an operation are accesses, in their order.  All operations in flight share the head: one passes at a time,
// demand before background, and reaches the store behind it when its last access has ended.  Operations other than
// read and write take no time of the head.

#include <chrono>
#include <memory>

#include <weir/runtime/runtime.h>
#include <weir/storage/store.h>

namespace weir::storage {

struct SlowDisk {
  std::chrono::nanoseconds seek = std::chrono::milliseconds(8);
  Offset bytes_per_second = Offset{50} << 20;
  friend bool operator==(const SlowDisk&, const SlowDisk&) = default;
};

/// Offers no memory to map or to share: every byte passes the head.
std::unique_ptr<Store> make_slow_store(std::unique_ptr<Store> store, const SlowDisk& disk,
                                       const runtime::Clock& clock = *runtime::system_runtime().clock);

}  // namespace weir::storage
