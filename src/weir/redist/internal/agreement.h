#pragma once

// Ranks that tell each other before they start: an error of one becomes an error of all, so that nobody waits for a
// message that never comes.  All functions are collective over the group, and their answer is an error on every rank or
// on none.

#include <cstdint>
#include <vector>

#include <weir/mpi/communicator.h>

namespace weir::redist::internal {

using Group = mpi::Communicator;

/// The operation that messages name.
inline constexpr const char* kOperation = "redistribution";

/// \error kInvalidArgument if the values differ between ranks: names which ranks pass what.  One small reduction if
/// they agree.
/// \pre All ranks pass terms of the same names.
Status compare_arguments(Group& group, const std::vector<group::Term>& terms);

/// `mine` if all are ok; otherwise the error of the lowest rank that has one, and its number.
Status agree(Group& group, const Status& mine);

/// Both at once, for a call whose only argument is a number of arrays: one small reduction if all is well.
Status agree_on_count(Group& group, std::int64_t count, const Status& mine);

/// The least of all ranks' values.
Result<std::int64_t> least(Group& group, std::int64_t value);

}  // namespace weir::redist::internal
