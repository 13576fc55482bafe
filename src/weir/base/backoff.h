#pragma once

#include <chrono>
#include <cstdint>

namespace weir {

/// What to do between two looks at something that can only be looked at, as a request of MPI: at first nothing, then the processor is given away,
/// since others may need it for just that, and after a while it sleeps, a little longer each time.
///
/// Giving away alone is not enough.  Processes that do nothing else for long, several to a processor, were seen to keep it among themselves: Linux 6.18 let
/// threads of other programs, ready to run, wait for seconds.  Those were the servers that all of them waited for.
class Backoff {
 public:
  using Clock = std::chrono::steady_clock;

  /// For what takes one message or two.
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
  std::uint32_t looks_ = 0;
};

}  // namespace weir
