#include <weir/transfer/internal/kernels_internal.h>

#if defined(__x86_64__)

#define WEIR_KERNEL __attribute__((target("avx2")))
#define WEIR_KERNEL_AVX2

namespace weir::transfer::internal::avx2 {

#include <weir/transfer/internal/kernels_isa.inc>

}  // namespace weir::transfer::internal::avx2

#endif
