#pragma once

// The leaves of datatypes: what MPI predefines.

#include <weir/mpiio/internal/datatype.h>

namespace weir::mpiio::internal {

/// The type map of a named type, pairs as MPI_DOUBLE_INT included.
Result<Typemap> basic_typemap(MPI_Datatype type, LeafSize how);

/// The same of a type from MPI_Type_create_f90_real, _complex or _integer; `precision` is 0 for integers.
Result<Typemap> f90_typemap(MPI_Datatype type, LeafSize how, int combiner, Offset precision, Offset range);

}  // namespace weir::mpiio::internal
