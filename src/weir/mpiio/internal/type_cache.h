#pragma once

#include <memory>

#include <mpi.h>

#include <weir/mpiio/internal/memory_map.h>

namespace weir::mpiio::internal {

/// Where the bytes of (count, type) lie in memory.  Programs use the same type again and again, so what was found out
/// is kept with the datatype itself, as an attribute, which MPI drops when the type is freed.  \threadsafety Safe from
/// any thread.
Result<std::shared_ptr<const MemoryMap>> cached_memory_map(MPI_Count count, MPI_Datatype type);

}  // namespace weir::mpiio::internal
