#pragma once

// MPI datatypes become FALLS by decoding what they were made of, not by listing pieces.

#include <mpi.h>

#include <weir/layout/element.h>
#include <weir/mpiio/internal/typemap.h>

namespace weir::mpiio::internal {

/// How long basic types are: as in memory, or as in a file of representation "external32".
enum class LeafSize { kNative, kExternal32 };

/// From one item of `type` to the next, as MPI says.
Offset extent_of(MPI_Datatype type);

/// The type map of one item.  Native bounds are those that MPI gives; external32 bounds follow from the file's sizes, without padding:
/// displacements that were given in items scale, those given in bytes stay.
/// \error kInvalidArgument for MPI_DATATYPE_NULL, and for a basic type that has no external32 form; kOutOfRange if a displacement
/// leaves +-2^62; kIoError if MPI fails
Result<Typemap> decode(MPI_Datatype type, LeafSize how);

/// What a file view shows: items of `filetype` from `disp` on, side by side.  Only the first if they overlap.
/// \error kInvalidArgument names what the standard forbids, and bytes that one item shows twice: MPI allows those to readers,
/// an element cannot hold them
Result<layout::Element> view_element(Offset disp, const Typemap& etype, Typemap filetype);

}  // namespace weir::mpiio::internal
