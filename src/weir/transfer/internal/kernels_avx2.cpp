#include <weir/transfer/internal/kernels_internal.h>

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,tune=haswell")
#endif

namespace weir::transfer::internal::avx2 {

#include <weir/transfer/internal/kernels_isa.inc>

}  // namespace weir::transfer::internal::avx2

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
