#pragma once

#include <string>
#include <vector>

namespace weir::launch::internal {

/// The shared libraries that a program names itself, as "libmpi.so.40"; none if the file is no such program.
/// Only for 64-bit programs of this machine's byte order.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace weir::launch::internal
