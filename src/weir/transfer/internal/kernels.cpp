#include <weir/transfer/internal/kernels_internal.h>

namespace weir::transfer::internal {

namespace {

bool has_avx2() noexcept {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
#else
  return false;
#endif
}

}  // namespace

Kernel choose_kernel(Offset length) noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return avx2::kernel_for(length);
#endif
  return baseline::kernel_for(length);
}

TileKernel choose_tile_kernel(Offset length) noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return avx2::tile_kernel_for(length);
#endif
  return baseline::tile_kernel_for(length);
}

TileKernel choose_row_kernel(Offset length) noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return avx2::row_kernel_for(length);
#endif
  return baseline::row_kernel_for(length);
}

PieceKernel choose_piece_kernel() noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return avx2::copy_piece;
#endif
  return baseline::copy_piece;
}

ListKernel choose_list_kernel() noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return avx2::copy_list;
#endif
  return baseline::copy_list;
}

IndexKernels choose_index_kernels(Offset length) noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return avx2::index_kernels_for(length);
#endif
  return baseline::index_kernels_for(length);
}

Kernel choose_bypass_kernel(Offset length, const Step& step) noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return avx2::bypass_kernel_for(length, step);
#endif
  return baseline::bypass_kernel_for(length, step);
}

void fence() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace weir::transfer::internal
