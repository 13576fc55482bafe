#pragma once

#include <optional>
#include <string>

#include <weir/cli/internal/command.h>
#include <weir/cli/internal/report_page.h>

namespace weir::cli::internal {

/// Makes the page from the traces in a directory.  \error what read_traces says; kIoError if `file` cannot be written
Status write_report(const std::string& traces, const std::string& file, const std::optional<JobFacts>& job);

/// Whether a report could be written there.
Status check_report_file(const std::string& file);

/// Adds `weir report`.
void add_report(CLI::App& app, Selection& selection);

}  // namespace weir::cli::internal
