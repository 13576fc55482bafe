#pragma once

#include <chrono>

namespace weir {

/// Waits until `descriptor` has something to read, or its other end is closed; signals do not end the wait.
/// \returns 1; 0 if `deadline` has passed; -1 and errno
int wait_readable(int descriptor, std::chrono::steady_clock::time_point deadline);

}  // namespace weir
