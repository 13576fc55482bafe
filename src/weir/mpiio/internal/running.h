#pragma once

#include <weir/group/wait.h>

namespace weir::mpiio::internal {

using group::is_mpi_running;

}  // namespace weir::mpiio::internal
