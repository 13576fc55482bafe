#pragma once

#include <cerrno>

namespace weir {

/// Makes a system call again for as long as signals interrupt it: programs have timers and profilers, which are no
/// reason for anything to fail.
template <typename Call>
auto uninterrupted(Call call) -> decltype(call()) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

}  // namespace weir
