#pragma once

// The compact binary form of partitions and of sets of FALLS, for the wire and for metadata; docs/formats.md describes
// it.

#include <cstddef>
#include <span>
#include <vector>

#include <weir/layout/partition.h>

namespace weir::layout {

std::vector<std::byte> encode(const Partition& partition);
std::vector<std::byte> encode(const FallsSet& set);

/// \error kCorrupt if `bytes` is not just one encoded partition (set) of a version that is known, or describes
/// something that Partition::create (check) refuses.  Safe for hostile bytes: time and memory are bounded by the length
/// of `bytes`.
Result<Partition> decode_partition(std::span<const std::byte> bytes);
Result<FallsSet> decode_falls(std::span<const std::byte> bytes);

}  // namespace weir::layout
