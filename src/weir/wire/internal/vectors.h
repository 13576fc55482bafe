#pragma once

// A look at the vectors of a buffer before anything is unpacked: what FlatBuffers' verifier leaves open.

#include <cstddef>
#include <optional>

#include <flatbuffers/flatbuffers.h>

namespace weir::wire::internal {

/// The bytes of all vectors and strings that a table leads to, counted as often as something leads to them: what
/// unpacking would copy.  Nothing if elements of one of them are not aligned to themselves; the verifier looks no
/// further than at the length before them.
/// \pre the verifier accepted the table; `types` is its type table
std::optional<std::size_t> bytes_in_vectors(const flatbuffers::Table& table, const flatbuffers::TypeTable& types);

}  // namespace weir::wire::internal
