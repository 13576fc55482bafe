#include <weir/base/poll.h>

#include <algorithm>
#include <cstdint>

#include <poll.h>

#include <weir/base/system_call.h>

namespace weir {

int wait_readable(int descriptor, std::chrono::steady_clock::time_point deadline) {
  pollfd event{descriptor, POLLIN, 0};
  return uninterrupted([&] {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    return ::poll(&event, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000'000)));
  });
}

}  // namespace weir
