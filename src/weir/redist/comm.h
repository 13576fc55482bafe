#pragma once

#include <string_view>

#include <mpi.h>

#include <weir/base/result.h>

namespace weir::redist {

/// Ok, or kIoError with MPI's own words: "MPI_Isend to rank 3: ...".
Status check_mpi(int code, std::string_view what);

/// Waits for what a non-blocking call started that returned `code`.  MPI libraries spin while they wait, some without
/// ever yielding; where ranks outnumber cores, the rank that all wait for would get its turn only when time slices end.
/// This does not (Backoff).
Status await(int code, MPI_Request& request, std::string_view what);

/// A communicator of our own, so that our messages never meet the user's, and errors come back instead of ending the
/// program.
class Comm {
 public:
  Comm() = default;
  /// Collective over `parent`.
  /// \error kInvalidArgument if MPI is not running or `parent` is no communicator of one group.
  static Result<Comm> duplicate(MPI_Comm parent);
  Comm(Comm&& other) noexcept;
  Comm& operator=(Comm&& other) noexcept;
  /// Once MPI has been finalized there is nothing left to free.
  ~Comm();

  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
};

}  // namespace weir::redist
