#pragma once

#include <istream>
#include <string>

namespace weir::cli::internal {

/// What can be read: all, or up to where reading fails, and then the stream is bad.  (The iterators of a stream buffer would throw.)
std::string read_all(std::istream& in);

}  // namespace weir::cli::internal
