#pragma once

// Predictions corrected by what was measured: for each kind of access and class of sizes, how measured times compare
// with predicted ones.

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>

#include <weir/base/checked.h>

namespace weir::model {

/// What was predicted and measured.
enum class Kind : std::uint8_t { kAloneRead, kAloneWrite, kTwoPhaseRead, kTwoPhaseWrite };

/// \threadsafety Safe from any thread; neither locks nor allocates.
class Corrections {
 public:
  using Clock = std::chrono::steady_clock;
  /// Ratios stay within [1 / kMost, kMost].
  static constexpr double kMost = 8;
  /// A ratio that was not confirmed for this long counts half: a method that was slow once is tried again.
  static constexpr std::chrono::seconds kHalfLife{60};

  /// Measured over predicted time of such accesses: the weighted geometric mean, recent ones first.  1: not known.
  [[nodiscard]] double ratio(Kind kind, Offset bytes, Clock::time_point now) const noexcept;

  /// Factors for two methods of which one is to be chosen.  A method that was not measured, or not lately, is assumed to
  /// be off by the square root of the ratio of the other: part of it is the machine's, part the method's.
  struct Factors {
    double first = 1;
    double second = 1;
  };
  [[nodiscard]] Factors factors(Kind first, Kind second, Offset bytes, Clock::time_point now) const noexcept;

  /// An access took so long; `predicted_seconds` is without corrections.  Times that are not positive are ignored.
  void note(Kind kind, Offset bytes, double predicted_seconds, double measured_seconds, Clock::time_point now) noexcept;

 private:
  static constexpr std::size_t kKinds = 4;
  static constexpr std::size_t kClasses = 16;

  /// One class of sizes.  The two fields are not read at one instant: a ratio may be seen with the time of another, which
  /// changes how far it has faded, by one measurement.
  struct Cell {
    std::atomic<std::uint64_t> state{0};  // how many were measured, and the logarithm of the ratio as a float
    std::atomic<Clock::rep> at{0};
  };
  struct Estimate {
    double log_ratio = 0;  // faded
    double trust = 0;      // 1: measured now, 0: not known
    double count = 0;      // of measurements, faded
  };
  [[nodiscard]] static Estimate estimate(const Cell& cell, Clock::time_point now) noexcept;
  [[nodiscard]] static std::size_t index(Kind kind, Offset bytes) noexcept;

  std::array<Cell, kKinds * kClasses> cells_;
};

}  // namespace weir::model
