#pragma once

#include <string>

#include <weir/cli/internal/command.h>
#include <weir/report/page.h>

namespace weir::cli::internal {

/// \error kIoError if `file` cannot be written
Status write_report(const trace::IoSummary& summary, const std::string& file, const report::JobFacts& job);

/// Whether a report could be written there.
Status check_report_file(const std::string& file);

/// Adds `weir report`.
void add_report(CLI::App& app, Selection& selection);

}  // namespace weir::cli::internal
