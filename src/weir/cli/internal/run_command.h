#pragma once

#include <weir/cli/internal/command.h>

namespace weir::cli::internal {

/// What `weir run` says, beside the exit codes of the command.
inline constexpr int kExitLate = 124;  ///< It took longer than --timeout.
inline constexpr int kExitCannotStart = 126;
inline constexpr int kExitNoCommand = 127;

/// "90", "90s", "1.5m", "2h"
Result<double> parse_seconds(std::string_view text);

/// Adds `weir run`.
void add_run(CLI::App& app, Selection& selection);
/// Adds `weir serve-job`, which `srun` starts for `weir run`; hidden from users.
void add_serve_job(CLI::App& app, Selection& selection);
/// Adds `weir env`.
void add_env(CLI::App& app, Selection& selection);

}  // namespace weir::cli::internal
