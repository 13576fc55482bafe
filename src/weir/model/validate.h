#pragma once

#include <functional>
#include <span>

#include <weir/model/model.h>

namespace weir::model {

/// One copy, predicted and measured.
struct Point {
  std::string group;  ///< The row of the table that it belongs to.
  std::string name;
  Path path = Path::kPack;
  double bytes = 0;
  double mean_length = 0;
  double measured_seconds = 0;
  double predicted_seconds = 0;
  double formula_seconds = 0;  ///< Predicted without the table of corrections.
  std::optional<double> noise =
      {};  ///< Relative difference between two measurements of this point, each from half of the rounds.
};

/// How good predictions are, in seconds per byte.
struct Accuracy {
  std::size_t points = 0;
  double r_squared = 0;      ///< 1 - residual / variance
  double log_r_squared = 0;  ///< The same of the logarithms: small values count as much as large ones.
  double max_error = 0;      ///< |predicted - measured| / measured
  double p90_error = 0;
  std::optional<double> p90_noise;  ///< 90th percentile of Point::noise: no error can be told from less than that.
};

/// Calibration has measured this point, too.  Its error is what the machine has changed since then, not the model's.
bool is_repeated(const Point& point);

Accuracy accuracy_of(std::span<const Point> points, bool formula_only = false);

struct ValidateOptions {
  bool quick = false;
  double limit_seconds = 60;  ///< As in CalibrateOptions.
  std::function<void(const std::string&)> progress;
  const runtime::Clock* clock = runtime::system_runtime().clock;
};

/// Measures copies that calibration did not, and some that it did, and predicts them.
/// \error as calibrate()
Result<std::vector<Point>> validate(const Machine& machine, const ValidateOptions& options = {});

/// Predicted against measured seconds per byte, both axes logarithmic.
std::string draw_svg(std::span<const Point> points, const std::string& title);

}  // namespace weir::model
