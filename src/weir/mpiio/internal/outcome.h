#pragma once

// How an MPI call of ours ended: well, or with one of the error classes of the standard and a message.

#include <string>

#include <mpi.h>

#include <weir/base/result.h>
#include <weir/base/text.h>

namespace weir::mpiio::internal {

class [[nodiscard]] Outcome {
 public:
  Outcome() = default;
  Outcome(const Status& status);  // NOLINT: implicit on purpose; the class that fits the code
  Outcome(int error_class, std::string message) : error_class_(error_class), message_(std::move(message)) {}

  static Outcome ok() { return {}; }

  [[nodiscard]] bool is_ok() const noexcept { return error_class_ == MPI_SUCCESS; }
  [[nodiscard]] int error_class() const noexcept { return error_class_; }
  [[nodiscard]] const std::string& message() const noexcept { return message_; }

 private:
  int error_class_ = MPI_SUCCESS;
  std::string message_;
};

/// fail(MPI_ERR_AMODE, "MPI_File_open of ", path, ": ...")
template <typename... Parts>
Outcome fail(int error_class, const Parts&... parts) {
  return {error_class, concat(parts...)};
}

/// The same with the call and its file in front, unless they are there.
Outcome named(std::string_view call, const std::string& path, const Outcome& outcome);

/// What a call of MPI itself says.
Outcome from_mpi(int code, std::string_view what);

}  // namespace weir::mpiio::internal

/// Returns from this function if the outcome is not well.
#define WEIR_PASS(expression)                                                                                     \
  do {                                                                                                            \
    if (::weir::mpiio::internal::Outcome weir_outcome = (expression); !weir_outcome.is_ok()) return weir_outcome; \
  } while (false)
