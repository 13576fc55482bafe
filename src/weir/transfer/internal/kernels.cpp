#include <weir/transfer/internal/kernels_internal.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

#if defined(__SSE2__)
// Packs N-byte blocks into whole lines that are streamed to memory.
template <std::size_t N>
void pack_around_cache(const std::byte* source, std::byte* target, Offset length, const Step& step) {
  constexpr Offset kBlocks = 64 / static_cast<Offset>(N);
  Step part = step;
  const auto misaligned = static_cast<Offset>(reinterpret_cast<std::uintptr_t>(target) % 64);
  const Kernel plain = choose_kernel(length);
  if (misaligned % static_cast<Offset>(N) != 0) return plain(source, target, length, step);
  part.count = std::min(step.count, misaligned == 0 ? 0 : (64 - misaligned) / static_cast<Offset>(N));
  if (part.count > 0) plain(source, target, length, part);
  source += part.count * step.source;
  target += part.count * step.target;
  Offset left = step.count - part.count;
  for (; left >= kBlocks; left -= kBlocks, source += kBlocks * step.source, target += 64) {
    alignas(64) std::byte line[64];
    for (Offset i = 0; i < kBlocks; ++i) {
      __builtin_memcpy(line + i * static_cast<Offset>(N), source + i * step.source, N);
    }
    for (int i = 0; i < 4; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(target) + i,
                       _mm_load_si128(reinterpret_cast<const __m128i*>(line) + i));
    }
  }
  if (left > 0) plain(source, target, length, {left, step.source, step.target});
}
#endif

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

Kernel choose_bypass_kernel(Offset length, const Step& step) noexcept {
#if defined(__SSE2__)
  if (step.target != length) return nullptr;
  switch (length) {
    case 8: return pack_around_cache<8>;
    case 16: return pack_around_cache<16>;
    case 32: return pack_around_cache<32>;
    case 64: return pack_around_cache<64>;
    default: return nullptr;
  }
#else
  (void)length;
  (void)step;
  return nullptr;
#endif
}

void fence() noexcept {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace weir::transfer::internal
