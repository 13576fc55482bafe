#include <weir/transfer/internal/kernels_internal.h>

#define WEIR_KERNEL

// Vectors wider than the registers are passed to inlined functions only; how they would be passed to others does not
// matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace weir::transfer::internal::baseline {

#include <weir/transfer/internal/kernels_isa.inc>

}  // namespace weir::transfer::internal::baseline
