#pragma once

#include <functional>
#include <string_view>

#include <mpi.h>

#include <weir/base/backoff.h>
#include <weir/base/result.h>

namespace weir::mpi {

/// MPI_Test
using Test = int (*)(MPI_Request*, int*, MPI_Status*);

struct Wait {
  std::chrono::microseconds awake = Backoff::kBytes;  ///< Before it sleeps between two looks.
  std::function<bool()> is_too_long = {};             ///< Asked now and then; without it there is no limit.
  Test test = PMPI_Test;
};

/// Between MPI_Init and MPI_Finalize.
bool is_mpi_running() noexcept;

/// Ok, or kIoError with MPI's own words: "MPI_Isend to rank 3: ...".
Status check_mpi(int code, std::string_view what);

/// Waits for what a non-blocking call started that returned `code`.  MPI libraries spin while they wait, some without
/// ever yielding; where ranks outnumber cores, the rank that all wait for would get its turn only when time slices end.
/// This does not (Backoff).
/// \error kTimedOut if it took too long: MPI may use the memory of the request for ever
Status await(std::string_view what, int code, MPI_Request& request, const Wait& wait = {});

}  // namespace weir::mpi
