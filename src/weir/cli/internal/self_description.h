#pragma once

// What the command knows about itself, for shells and for man: made of the same declarations that parse the command
// line.

#include <string>

#include <CLI/CLI.hpp>

#include <weir/cli/internal/command.h>

namespace weir::cli::internal {

/// Adds `weir help`, `weir completion` and the hidden `weir manual`.  \pre All other commands are there; `app` outlives
/// `selection`.
void add_self_description(CLI::App& app, Selection& selection);

/// A script for bash: completes commands, options and the values of options that have a fixed set of them, and local
/// files otherwise.
std::string bash_completion(const CLI::App& app);

/// weir.1, for man.
std::string manual_page(const CLI::App& app);

/// Subcommands that are shown to users.
std::vector<const CLI::App*> visible_commands(const CLI::App& app);
/// "-r", "--recursive", ... of a command.
std::vector<std::string> option_names(const CLI::App& command);

}  // namespace weir::cli::internal
