#pragma once

// The MPI's own functions, below those that we define.
//
// We define both MPI_File_open and PMPI_File_open: Open MPI's Fortran layer and profiling tools call the latter.  So
// neither name leads to the MPI's own function any more, but the next definition of PMPI_File_open after ours does.

#include <mpi.h>

namespace weir::mpiio::internal {

/// The definition of `name` in the libraries after the one that holds this code, or, if libweir_preload.so has loaded
/// it, after that one.  Null if there is none.
void* find_next_symbol(const char* name);
/// The same, but ends the program if there is none: then this library was loaded without the MPI it was built for.
void* next_symbol(const char* name);

}  // namespace weir::mpiio::internal

/// WEIR_REAL(MPI_File_open)(comm, ...): looked up once.
#define WEIR_REAL(function)                                                                            \
  ([] {                                                                                                \
    static const auto real =                                                                           \
        reinterpret_cast<decltype(&P##function)>(::weir::mpiio::internal::next_symbol("P" #function)); \
    return real;                                                                                       \
  }())
