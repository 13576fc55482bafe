#include <weir/report/job_summary.h>

#include <algorithm>

#include <fmt/format.h>

#include <weir/base/ranks.h>
#include <weir/base/text.h>
#include <weir/report/page.h>

namespace weir::report {

using trace::FailureSum;
using trace::FileSummary;
using trace::IoSummary;

namespace {

constexpr std::size_t kMostFailureLines = 10;
constexpr std::size_t kLongestReason = 500;  // characters

}  // namespace

std::string job_line(const IoSummary& summary, double seconds) {
  if (summary.ranks == 0) {
    return concat("no file of Weir (weir:/...) was opened by MPI-IO in ", human_seconds(seconds));
  }
  Offset read = 0;
  Offset written = 0;
  for (const FileSummary& file : summary.files) {
    read += file.bytes[0];
    written += file.bytes[1];
  }
  const double io_seconds = std::min(summary.io_seconds, seconds);  // programs may run at the same time
  std::string line =
      concat("wrote ", human_bytes(static_cast<double>(written)), " and read ", human_bytes(static_cast<double>(read)),
             " of ", summary.files.size(), summary.files.size() == 1 ? " file" : " files");
  if (io_seconds > 0 && read + written > 0) {
    line += fmt::format(" at {:.3g} GB/s", static_cast<double>(read + written) / io_seconds / 1e9);
  }
  if (seconds > 0) {
    line += fmt::format("; I/O took {:.2g} % of {}", 100 * io_seconds / seconds, human_seconds(seconds));
  }
  line += summary.failed_calls == 0
              ? std::string("; no failed calls")
              : concat("; ", summary.failed_calls, summary.failed_calls == 1 ? " failed call" : " failed calls");
  if (summary.cut_off > 0) {
    line += concat("; ", summary.cut_off, summary.cut_off == 1 ? " rank" : " ranks", " did not end normally");
  }
  return line;
}

std::string failures_title(const IoSummary& summary) {
  return summary.failed_calls == 1 ? "1 I/O call failed." : concat(summary.failed_calls, " I/O calls failed.");
}

std::vector<int> ranks_of(const FailureSum& failure) {
  std::vector<int> ranks;
  for (const auto& [rank, count] : failure.by_rank) ranks.push_back(rank);
  return ranks;
}

std::vector<std::string> failure_lines(const IoSummary& summary) {
  std::vector<std::string> lines;
  if (summary.failed_calls == 0) return lines;
  lines.push_back(failures_title(summary));
  for (std::size_t i = 0; i < std::min(summary.failures.size(), kMostFailureLines); ++i) {
    const FailureSum& failure = summary.failures[i];
    lines.push_back(concat("  ", failure.path, ": ", failure.call, ", ", failure.count,
                           failure.count == 1 ? " time" : " times",
                           failure.by_rank.size() == 1 ? " on rank " : " on ranks ", list_ranks(ranks_of(failure)),
                           ": ", shorten(failure.message, kLongestReason)));
  }
  if (summary.failures.size() > kMostFailureLines) {
    lines.push_back(concat("  and ", summary.failures.size() - kMostFailureLines,
                           " more kinds of failures; --report FILE lists them"));
  }
  return lines;
}

}  // namespace weir::report
