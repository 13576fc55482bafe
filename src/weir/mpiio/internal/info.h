#pragma once

#include <mpi.h>

#include <weir/base/status.h>
#include <weir/pario/hints.h>

namespace weir::mpiio::internal {

/// MPI_INFO_NULL: none.
pario::Hints read_info(MPI_Info info);
/// A new info object with all hints that are not too long for MPI.
Status write_info(const pario::Hints& hints, MPI_Info* info);

}  // namespace weir::mpiio::internal
