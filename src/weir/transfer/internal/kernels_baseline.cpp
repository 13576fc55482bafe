#include <weir/transfer/internal/kernels_internal.h>

namespace weir::transfer::internal::baseline {

#include <weir/transfer/internal/kernels_isa.inc>

}  // namespace weir::transfer::internal::baseline
