#pragma once

#include <string>

namespace weir::launch::internal {

/// The address of this node that other nodes reach, as digits; IPv6 in brackets.  That of its name, unless the name is
/// unknown here, or one of this node alone (Debian's 127.0.1.1): then the one that packets to `peer`, another address
/// in digits, would leave from.
/// \returns `name` if there is neither.
std::string address_of_node(const std::string& name, const std::string& peer);

}  // namespace weir::launch::internal
