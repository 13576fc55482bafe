#pragma once

// One message of each kind, with values that differ from the defaults.  For tests and for the seeds of the fuzzer.

#include <vector>

#include <weir/wire/wire.h>

namespace weir::wire::internal {

/// In the order of the union Operation.
std::vector<RequestHeadT> example_requests();
/// In the order of the union Answer.
std::vector<ReplyHeadT> example_replies();

}  // namespace weir::wire::internal
