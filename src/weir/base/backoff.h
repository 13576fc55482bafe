#pragma once

#include <chrono>
#include <cstdint>

namespace weir {

/// Backoff for polling, as a request of MPI needs it: spin, then yield, then sleep, a little longer each time.
///
/// Beside programs that compute it sleeps instead of yielding (scheduling.h).  Nobody yields for long: several
/// processes that did, on one processor, starved the threads of servers for seconds (Linux 6.18).
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;

  /// How long it spins.
  static constexpr std::chrono::microseconds kSpin{50};
  /// For what takes a few messages.
  static constexpr std::chrono::microseconds kMessages{500};
  /// For what moves many bytes by being looked at.
  static constexpr std::chrono::milliseconds kBytes{50};

  /// Does not sleep before `awake` has passed.
  explicit Backoff(std::chrono::microseconds awake = kMessages) noexcept : awake_(awake) {}

  /// Between two looks.
  void pause() noexcept;
  /// How long it would sleep after so long a wait.
  [[nodiscard]] std::chrono::nanoseconds sleep_after(std::chrono::nanoseconds waited) const noexcept;

 private:
  std::chrono::nanoseconds awake_;
  Clock::time_point start_{};
  Clock::time_point last_{};  // look
  std::uint32_t looks_ = 0;
};

}  // namespace weir
