#pragma once

// Ctrl-C for commands that have something to tidy up before they end.

namespace weir::cli::internal {

inline constexpr char kInterrupted[] =
    "interrupted";  ///< The message of the error that a signal makes of an operation.
inline constexpr int kExitInterrupted = 130;

/// While one lives, the first SIGINT, SIGTERM or SIGHUP is noted instead of ending the process; the second ends it.
/// Signals that were ignored before stay ignored.  May be nested: the outermost counts.  \threadsafety Make and drop it
/// in one thread; the functions are safe from any.
class InterruptionGuard {
 public:
  InterruptionGuard();
  ~InterruptionGuard();
  InterruptionGuard(const InterruptionGuard&) = delete;
  InterruptionGuard& operator=(const InterruptionGuard&) = delete;

  /// Whether a signal came since the outermost guard was made.  Always false without a guard.
  [[nodiscard]] static bool is_interrupted();
  /// Waits until `descriptor` can be read or is at its end.  \returns false if a signal came; true at once without a
  /// guard.
  [[nodiscard]] static bool wait_readable(int descriptor);
};

}  // namespace weir::cli::internal
