#pragma once

// What kernels_isa.inc needs, included before the instruction set is chosen.

#include <algorithm>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <weir/transfer/internal/kernels.h>

namespace weir::transfer::internal {

/// A value at any address, of any type before.
template <typename Block>
struct __attribute__((packed, may_alias)) LooseBlock {
  Block value;
};

/// Vectors of the compiler's: instructions where the target has them, several smaller ones elsewhere.
using Vector16 = long long __attribute__((vector_size(16)));
using Vector32 = long long __attribute__((vector_size(32)));

template <std::size_t N>
struct BlockType;
template <>
struct BlockType<1> {
  using Type = std::uint8_t;
};
template <>
struct BlockType<2> {
  using Type = std::uint16_t;
};
template <>
struct BlockType<4> {
  using Type = std::uint32_t;
};
template <>
struct BlockType<8> {
  using Type = std::uint64_t;
};
template <>
struct BlockType<16> {
  using Type = Vector16;
};
template <std::size_t N>
using BlockOf = typename BlockType<N>::Type;

namespace baseline {
Kernel kernel_for(Offset length) noexcept;
TileKernel tile_kernel_for(Offset length) noexcept;
TileKernel row_kernel_for(Offset length) noexcept;
IndexKernels index_kernels_for(Offset length) noexcept;
void copy_piece(const std::byte* source, std::byte* target, Offset length);
void copy_list(const std::byte* source, std::byte* target, const ListPiece* pieces, std::size_t count,
               const Step& step);
Kernel bypass_kernel_for(Offset length, const Step& step) noexcept;
}  // namespace baseline

#if defined(__x86_64__)
namespace avx2 {
Kernel kernel_for(Offset length) noexcept;
TileKernel tile_kernel_for(Offset length) noexcept;
TileKernel row_kernel_for(Offset length) noexcept;
IndexKernels index_kernels_for(Offset length) noexcept;
void copy_piece(const std::byte* source, std::byte* target, Offset length);
void copy_list(const std::byte* source, std::byte* target, const ListPiece* pieces, std::size_t count,
               const Step& step);
Kernel bypass_kernel_for(Offset length, const Step& step) noexcept;
}  // namespace avx2
#endif

}  // namespace weir::transfer::internal
