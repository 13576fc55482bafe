#pragma once

#include <mpi.h>

namespace weir::mpiio::internal {

/// Collective over `comm`: if it has all ranks of MPI_COMM_WORLD, MPI_Finalize will not hang for how they leave
/// MPI_File_close.
///
/// MPICH with UCX on TCP does, before version 4.2 (pull request 6596).  In MPI_Finalize a rank sends a last message to
/// each other, waits for the acknowledgements, and then waits for the launcher without looking at messages again.  So
/// nobody acknowledges the last message of a rank that was still busy with MPI, and acknowledged the messages of
/// others, when those had already come to MPI_Finalize.  Where this can happen, ranks begin MPI_Finalize together.
void begin_finalize_together(MPI_Comm comm) noexcept;

}  // namespace weir::mpiio::internal
