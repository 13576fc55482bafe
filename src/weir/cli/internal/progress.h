#pragma once

// A line that tells how far long work has come; only if standard error is a terminal, and at most ten times a second.

#include <chrono>
#include <ostream>
#include <string>

#include <weir/base/checked.h>
#include <weir/cli/run.h>

namespace weir::cli::internal {

/// "1.5 GiB", "17 B"
std::string bytes_text(double bytes);

class ProgressBar {
 public:
  ProgressBar(std::ostream& out, const Terminal& terminal, const std::string& what);
  /// Ends the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `all` below 0: not known.
  void show(Offset done, Offset all);

 private:
  using Clock = std::chrono::steady_clock;
  std::ostream& out_;
  Terminal terminal_;
  std::string what_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_;
  bool is_shown_ = false;
};

/// The line itself, for `columns` columns.
std::string progress_line(const std::string& what, Offset done, Offset all, double seconds, int columns);

}  // namespace weir::cli::internal
