#pragma once

// Errors: MPI's error classes as Status and back; and error codes, of which MPI_Error_class is a class of the standard
// and MPI_Error_string our whole message.
//
// Codes come from MPI_Add_error_code, which both MPIs also grant for predefined classes.  MPICH then shows a text of
// its own for such a code, so MPI_Error_string is interposed and looks here first.  Codes are few and messages many: a
// code's message is the last one that it was returned for, and each class has several codes in turn.

#include <optional>
#include <string>

#include <mpi.h>

#include <weir/base/result.h>
#include <weir/base/text.h>
#include <weir/pario/errors.h>

namespace weir::mpiio::internal {

/// fail(MPI_ERR_AMODE, "MPI_File_open of ", path, ": ...")
template <typename... Parts>
Status fail(int error_class, const Parts&... parts) {
  return invalid_argument(concat(parts...)).with_detail(pario::kFirstOfCaller + error_class);
}

/// What a call of MPI itself says.
Status from_mpi(int code, std::string_view what);

/// MPI_SUCCESS, or the error class that fits.
int class_of(const Status& status);

/// MPI_SUCCESS, or a code that stands for this error.  The class itself when MPI is not running or gives no code.
int error_code(const Status& status);

/// The message that goes with one of our codes.
std::optional<std::string> message_of(int code);

}  // namespace weir::mpiio::internal
