#pragma once

// Error handlers of files.
//
// An MPI offers no way to call a user's handler for a file that is not its own, so we keep the functions that
// MPI_File_create_errhandler is given.  A handler may be freed while files still use it; MPI keeps it for its own
// files, we must for ours: MPI_Errhandler_free of a handler that a file of ours has had lets go of the user's copy of
// the handle and no more.
//
// Fortran's handlers are told the number of the file; so we keep those functions as such.

#include <weir/mpiio/internal/errors.h>

namespace weir::mpiio::internal {

/// A new handler and what it calls.
void remember_handler(MPI_Errhandler handler, MPI_File_errhandler_function* function);
using FortranFileHandler = void(MPI_Fint* file, MPI_Fint* code, ...);
/// The same of a handler that Fortran made.
void remember_fortran_handler(MPI_Errhandler handler, FortranFileHandler* function);
/// A file of ours has it from now on.
void keep_handler(MPI_Errhandler handler);
bool is_kept_handler(MPI_Errhandler handler);
void forget_handler(MPI_Errhandler handler);

/// The handler of MPI_FILE_NULL, which is that of new files and of calls without a file.
MPI_Errhandler default_handler();

/// Does with an error what the handler says.  \returns what the MPI function returns, if it returns: the handler may
/// have changed the code
int handle_error(const Status& status, MPI_Errhandler handler, MPI_File file);
/// The same for a code of any MPI: MPI_File_call_errhandler.
int handle_code(int code, MPI_Errhandler handler, MPI_File file);

}  // namespace weir::mpiio::internal
