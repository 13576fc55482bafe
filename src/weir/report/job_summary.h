#pragma once

// What `weir run` says in the end about the I/O of a job: one line, and more only if calls failed.

#include <string>
#include <vector>

#include <weir/trace/summary.h>

namespace weir::report {

/// "wrote 703 MiB and read 12 MiB of 2 files at 1.9 GB/s; 12 % of 4.2 s were I/O; no failed calls"
std::string job_line(const trace::IoSummary& summary, double seconds);

/// Empty if no call failed; otherwise lines without their ends: how many failed, and for each file and function on
/// which ranks and why.
std::vector<std::string> failure_lines(const trace::IoSummary& summary);

/// "3 I/O calls failed."
std::string failures_title(const trace::IoSummary& summary);
/// In order.
std::vector<int> ranks_of(const trace::FailureSum& failure);

}  // namespace weir::report
