#pragma once

// Any store, as slow as a disk with one head: makes the physics of disks visible in tests and benchmarks, whatever the
// machine has.
//
//   an access costs     seek, unless it begins where the last one ended in the same subfile
//                       + its bytes / rate
//
// Pieces of a call are accesses, in their order.  All calls share the head: it is busy until the last access has ended,
// and the next one begins then.  Everything else (sync, truncate, names, labels) takes the time of the store itself.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include <weir/storage/store.h>

namespace weir::storage {

struct SlowDisk {
  std::chrono::nanoseconds seek = std::chrono::milliseconds(8);
  Offset bytes_per_second = Offset{50} << 20;
  friend bool operator==(const SlowDisk&, const SlowDisk&) = default;
};

/// The time that the head moves in.
struct SlowTime {
  using Point = std::chrono::steady_clock::time_point;
  std::function<Point()> now;
  std::function<void(Point)> sleep_until;
  static SlowTime real();
};

/// Offers no memory to map or to share: every byte passes the head.
std::unique_ptr<Store> make_slow_store(std::unique_ptr<Store> store, const SlowDisk& disk,
                                       SlowTime time = SlowTime::real());

}  // namespace weir::storage
