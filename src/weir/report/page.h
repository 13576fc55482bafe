#pragma once

// The report of a job's I/O: one HTML page that needs nothing but itself, also in print.

#include <optional>
#include <string>

#include <weir/trace/summary.h>

namespace weir::report {

/// What only `weir run` knows.
struct JobFacts {
  std::string command{};
  std::string mpi{};
  int servers = 1;
  std::string store{};
  int exit_code = 0;
  double seconds = 0;
};

/// `job`: nothing if the traces are all that is known.
std::string report_page(const trace::IoSummary& summary, const std::optional<JobFacts>& job);

/// The same in JSON.
std::string report_json(const trace::IoSummary& summary, const std::optional<JobFacts>& job);

/// "12.3 MiB", "1.25 ms"
std::string human_bytes(double bytes);
std::string human_seconds(double seconds);

}  // namespace weir::report
