#pragma once

#include <istream>
#include <string>

namespace weir {

/// What can be read: all, or up to where reading fails, and then the stream is bad.  (The iterators of a stream buffer
/// would throw.) Stops behind `most` bytes: a longer result means that there were more.
std::string read_all(std::istream& in, std::size_t most = std::string::npos - 4096);

}  // namespace weir
