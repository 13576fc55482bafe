#pragma once

// The ScaLAPACK and BLACS of the program, found at run time.
//
// The drop-in does not link ScaLAPACK: it is loaded in front of whichever one the program brings.  Of the BLACS only
// the Fortran interface is used, which every implementation has and which names communicators by MPI's own Fortran
// handles.

#include <string>

#include <mpi.h>

#include <weir/base/result.h>
#include <weir/runtime/runtime.h>

namespace weir::scalapack::internal {

struct GridPosition {
  int rows = -1;
  int columns = -1;
  int my_row = -1;  ///< -1: this process is not in the grid.
  int my_column = -1;
};

class Blacs {
 public:
  /// \error kInvalidArgument if the program has no BLACS.
  static Result<Blacs> find(const runtime::Settings& settings);

  /// Of a context; -1 is the context of those who have none.
  [[nodiscard]] GridPosition position(int context) const;
  /// The communicator that the BLACS keep for a context, with this process in it.  It lives as long as the context.
  [[nodiscard]] MPI_Comm communicator(int context) const;
  /// The communicator of all processes.
  [[nodiscard]] MPI_Comm everyone() const;

 private:
  using GridInfo = void(const int*, int*, int*, int*, int*);
  using Get = void(const int*, const int*, int*);
  Blacs(GridInfo* grid_info, Get* get) : grid_info_(grid_info), get_(get) {}
  GridInfo* grid_info_;
  Get* get_;
};

/// The routine `name` that the program would call without the drop-in; null if there is none.
void* find_real(const std::string& name, const runtime::Settings& settings);

}  // namespace weir::scalapack::internal
