#pragma once

#include <functional>
#include <span>

#include <weir/model/model.h>

namespace weir::model {

/// One measured copy: pieces of `length` bytes, `stride` bytes apart in the array, packed in the message.
struct Sample {
  Offset length = 0;
  Offset stride = 0;
  double piece_seconds = 0;
  bool is_aligned =
      false;  ///< The stride is a power of two that leads to few sets of the caches: for the corrections only.
};

/// Fits phi, kappa and theta of one regime to samples (least squares of logarithms, outliers damped) and fills in the
/// corrections.
/// \pre At least 6 samples, all times positive.
Regime fit_regime(std::span<const Sample> samples, double working_set, Offset line_bytes, Offset page_bytes);

struct CalibrateOptions {
  bool quick = false;  ///< A few seconds and fewer points, for a first impression and for tests.
  /// Points are measured in rounds until this time is over; the median counts.  Hard, but for one measurement.
  double limit_seconds = 40;
  std::function<void(const std::string&)> progress;  ///< Told in a line what is measured now.
  const runtime::Clock* clock = runtime::system_runtime().clock;
};

/// Measures the machine that this runs on, with one thread.
/// \error kIoError if there is no memory for it; kInvalidArgument if the limit is over before every point was measured
/// once.
Result<Machine> calibrate(const CalibrateOptions& options = {});

}  // namespace weir::model
