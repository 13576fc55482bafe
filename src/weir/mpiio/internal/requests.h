#pragma once

// Requests of non-blocking accesses: generalized requests of MPI.
//
// No thread of ours calls MPI.  What is under way gets on when the program waits or tests, which is why MPI_Wait,
// MPI_Test and their kin are interposed (waits.cpp); as long as nothing of ours is under way they go straight to MPI.
//
// A request that failed completes without an error as far as MPI can see, which would otherwise end the program.  The
// interposed call finds the failure, lets the file's error handler do its work, and returns the code.

#include <memory>
#include <vector>

#include <weir/mpiio/internal/file.h>
#include <weir/mpiio/internal/program_access.h>

namespace weir::mpiio::internal {

/// A request for an access that has been started.
Status make_request(std::shared_ptr<File> file, ProgramAccess program, pario::Pending pending, MPI_Request* request);

/// Waits for all accesses of a file.
void finish_requests(const File& file);

/// Is there a request that MPI alone cannot complete, or not in the right way?
bool has_requests() noexcept;

/// Does what can be done now.
void progress_requests();

/// A request of ours that MPI has just completed in this thread, and that had failed.
struct FailedRequest {
  MPI_Request request = MPI_REQUEST_NULL;
  std::shared_ptr<File> file;
  Status status;
};
/// Those since the last call, in this thread.
std::vector<FailedRequest> take_failed_requests();

}  // namespace weir::mpiio::internal
