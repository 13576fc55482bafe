#pragma once

// Time of repeated runs, on a machine that others use too.
//
// What disturbs lasts longer than a measurement: a neighbour that fills the last cache does so for seconds.  Repeating
// a measurement at once repeats the disturbance.  So all jobs are measured once in a round, round after round, and the
// median over rounds is what counts.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <weir/model/model.h>
#include <weir/transfer/plan.h>

namespace weir::model::internal {

/// Jobs that are measured in rounds.
class Rounds {
 public:
  /// \returns the number of the job.
  std::size_t add(std::function<void()> job);

  struct Limits {
    double seconds = 45;  ///< Hard, but for one measurement.
    int rounds = 9;
    const runtime::Clock* clock = runtime::system_runtime().clock;
  };
  /// `progress` is told what round it is.
  /// \error kInvalidArgument if the time is over before the first round is.
  Status run(const Limits& limits, const std::function<void(const std::string&)>& progress);

  [[nodiscard]] double seconds(std::size_t job) const;
  /// The same from every other round, and from those in between: how far two honest measurements are apart, relative.
  /// Nothing if there are fewer than two rounds.
  [[nodiscard]] std::optional<double> noise(std::size_t job) const;
  [[nodiscard]] std::size_t rounds() const noexcept { return complete_rounds_; }

 private:
  std::vector<std::function<void()>> jobs_;
  std::vector<std::vector<double>> times_;
  std::size_t complete_rounds_ = 0;
};

/// Memory that starts on a page and has been written to.
class Arena {
 public:
  static Result<Arena> create(std::size_t bytes);
  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept;
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_ = 0;
};

/// Repeated passes over an array with pieces at one stride.
struct Sweeps {
  Offset length = 0;
  Offset stride = 0;
  Offset pieces = 0;  ///< Of one sweep.
  Offset count = 1;
  Offset step = 0;  ///< From the start of one sweep to that of the next.

  [[nodiscard]] Offset array_bytes() const noexcept { return pieces * stride + count * step; }
  [[nodiscard]] Offset message_bytes() const noexcept { return pieces * count * length; }
};

/// As many as visit every line of an array once, both sides together touching `working_set` bytes.
Sweeps sweeps_over(Path path, Offset length, Offset stride, double working_set, Offset line_bytes) noexcept;

/// What packs (unpacks) pieces of an array, or copies them to the same places in another one.
/// \pre sweeps.pieces > 0
Result<transfer::Plan> plan_of(Path path, const Sweeps& sweeps);

/// \pre `plan` is of these sweeps; array and message have room for them.
void run_sweeps(const transfer::Plan& plan, Path path, const Sweeps& sweeps, const Arena& array, const Arena& message);

}  // namespace weir::model::internal
