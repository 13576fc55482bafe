#pragma once

#include <mpi.h>

namespace weir::mpiio::internal {

/// Between MPI_Init and MPI_Finalize.
inline bool is_mpi_running() noexcept {
  int is_initialized = 0;
  int is_finalized = 0;
  PMPI_Initialized(&is_initialized);
  PMPI_Finalized(&is_finalized);
  return is_initialized != 0 && is_finalized == 0;
}

}  // namespace weir::mpiio::internal
