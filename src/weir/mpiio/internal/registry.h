#pragma once

// Which MPI_File handles are ours.  A handle is looked up here before anything behind it is touched, so those of other
// files, of closed files and plain rubbish do no harm.

#include <memory>

#include <weir/mpiio/internal/file.h>

namespace weir::mpiio::internal {

/// Null if it is none of ours.  \threadsafety Safe from any thread, all of them.
std::shared_ptr<File> find_file(MPI_File handle);
/// \returns its handle
MPI_File add_file(std::shared_ptr<File> file);
void drop_file(MPI_File handle);
/// Was it a handle of ours, and is its file closed?
bool is_closed_file(MPI_File handle);
/// MPI has opened a file of its own, perhaps at the same address.
void reopened(MPI_File handle);

/// The number that Fortran programs know a file by: far above those of the MPI's own files.
MPI_Fint number_of(const File& file);
/// MPI_FILE_NULL if there is none.
MPI_File handle_of(MPI_Fint number);
bool is_our_number(MPI_Fint number);

}  // namespace weir::mpiio::internal
