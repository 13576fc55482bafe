#pragma once

// Time of repeated runs, on a machine that others use too: the fastest of many short ones.

#include <cstddef>
#include <functional>
#include <memory>

#include <weir/model/model.h>
#include <weir/transfer/plan.h>

namespace weir::model::internal {

struct Timing {
  double budget_seconds = 0.008;  ///< Per measurement.
  int least_runs = 5;             ///< However long they take.
};

/// The low end of the times of `run`, in seconds.
double measure(const std::function<void()>& run, const Timing& timing);

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
  Offset pieces = 0;  ///< Of one sweep.
  Offset count = 1;
  Offset step = 0;  ///< From the start of one sweep to that of the next.

  [[nodiscard]] Offset array_bytes(Offset stride) const noexcept { return pieces * stride + count * step; }
  [[nodiscard]] Offset message_bytes(Offset length) const noexcept { return pieces * count * length; }
};

/// As many as visit every line of an array once, array and messages touching `working_set` bytes.
Sweeps sweeps_over(Offset length, Offset stride, double working_set, Offset line_bytes) noexcept;

/// \pre The plan gathers (Path::kPack) or scatters an endless element of pieces of `length` bytes.
void run_sweeps(const transfer::Plan& plan, Path path, Offset length, const Sweeps& sweeps, const Arena& array,
                const Arena& message);

}  // namespace weir::model::internal
