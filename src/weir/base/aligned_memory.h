#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace weir {

inline constexpr std::size_t kPageBytes = 4096;
/// Of x86-64, and of other processors with pages of 4 KiB.
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

struct FreeMemory {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeMemory>;

/// Memory that begins where a page does; from kHugePageBytes on where a huge page does, and made of those, if the
/// system gives any to those who ask.  Disks take and give bytes without a copy then, and in few pieces.  Never null:
/// throws std::bad_alloc.
/// \pre bytes is a multiple of kPageBytes; from kHugePageBytes on, of that
AlignedMemory make_aligned_memory(std::size_t bytes);

}  // namespace weir
