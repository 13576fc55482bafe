#pragma once

// Error codes: MPI_Error_class of them is a class of the standard, MPI_Error_string our whole message.
//
// Codes come from MPI_Add_error_code, which both MPIs also grant for predefined classes.  MPICH then shows a text of
// its own for such a code, so MPI_Error_string is interposed and looks here first.  Codes are few and messages many: a
// code's message is the last one that it was returned for, and each class has several codes in turn.

#include <optional>
#include <string>

#include <weir/mpiio/internal/outcome.h>

namespace weir::mpiio::internal {

/// MPI_SUCCESS, or a code that stands for this outcome.  The class itself when MPI is not running or gives no code.
int error_code(const Outcome& outcome);

/// The message that goes with one of our codes.
std::optional<std::string> message_of(int code);

}  // namespace weir::mpiio::internal
