#pragma once

// What kernels_isa.inc needs, included before the instruction set is chosen.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <weir/transfer/internal/kernels.h>

namespace weir::transfer::internal {

/// A value at any address, of any type before.
template <typename Block>
struct __attribute__((packed, may_alias)) LooseBlock {
  Block value;
};

namespace baseline {
Kernel kernel_for(Offset length) noexcept;
TileKernel tile_kernel_for(Offset length) noexcept;
}  // namespace baseline

#if defined(__x86_64__)
namespace avx2 {
Kernel kernel_for(Offset length) noexcept;
TileKernel tile_kernel_for(Offset length) noexcept;
}  // namespace avx2
#endif

}  // namespace weir::transfer::internal
