#pragma once

// MPI datatypes become FALLS by decoding what they were made of, not by listing pieces.

#include <mpi.h>

#include <weir/layout/element.h>
#include <weir/mpiio/internal/typemap.h>
#include <weir/pario/overlap.h>

namespace weir::mpiio::internal {

/// How long basic types are: as in memory, or as in a file of representation "external32".
enum class LeafSize { kNative, kExternal32 };

/// From one item of `type` to the next, as MPI says.
Offset extent_of(MPI_Datatype type);

/// The type map of one item.  Native bounds are those that MPI gives; external32 bounds follow from the file's sizes,
/// without padding: displacements that were given in items scale, those given in bytes stay.
/// \error kInvalidArgument for MPI_DATATYPE_NULL, and for a basic type that has no external32 form; kOutOfRange if a
/// displacement leaves +-2^62; kIoError if MPI fails
Result<Typemap> decode(MPI_Datatype type, LeafSize how);

/// What a file view shows: items of `filetype` from `disp` on, side by side.  Only the first if they overlap.
/// \error kInvalidArgument names what the standard forbids, and bytes that one item shows twice: see overlapping_view()
Result<layout::Element> view_element(Offset disp, const Typemap& etype, Typemap filetype);

/// True if the filetype shows bytes twice, within an item or in several: `element` is what view_element() has made of
/// it.
bool has_overlaps(const Typemap& filetype, const Result<layout::Element>& element);
/// The same view with all of its items, for reading.  \error as view_element()
Result<pario::OverlappingView> overlapping_view(Offset disp, const Typemap& etype, const Typemap& filetype);

}  // namespace weir::mpiio::internal
