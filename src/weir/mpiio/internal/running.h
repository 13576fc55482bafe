#pragma once

#include <chrono>

#include <weir/mpi/wait.h>

namespace weir::mpiio::internal {

using mpi::is_mpi_running;

/// How long a collective call waits for a rank: WEIR_MPIIO_TIMEOUT, in seconds (60).
std::chrono::seconds longest_wait();

}  // namespace weir::mpiio::internal
