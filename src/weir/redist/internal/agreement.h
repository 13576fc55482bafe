#pragma once

// Ranks that tell each other before they start: an error of one becomes an error of all, so that nobody waits for a
// message that never comes.  All functions are collective over the communicator, and their answer is an error on every
// rank or on none.

#include <cstdint>
#include <string>
#include <vector>

#include <weir/redist/comm.h>

namespace weir::redist::internal {

/// One argument of a collective call, as text.
struct Field {
  std::string name;
  std::string value;
};

/// \error kInvalidArgument if the values differ between ranks: names which ranks pass what.  One small reduction if
/// they agree.
/// \pre All ranks pass fields of the same names.
Status compare_arguments(const Comm& comm, const std::vector<Field>& fields);

/// `mine` if all are ok; otherwise the error of the lowest rank that has one, and its number.
Status agree(const Comm& comm, const Status& mine);

/// Both at once, for a call whose only argument is a number of arrays: one small reduction if all is well.
Status agree_on_count(const Comm& comm, std::int64_t count, const Status& mine);

/// The least of all ranks' values.
Result<std::int64_t> least(const Comm& comm, std::int64_t value);

}  // namespace weir::redist::internal
