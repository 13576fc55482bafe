#pragma once

// What is known of a machine, for people and for programs.

#include <ostream>
#include <string>

#include <weir/model/machine.h>

namespace weir::cli::internal {

/// "1.234 ms"
std::string seconds_text(double seconds);

/// Tables with units; costs that nobody measured are marked.
void write_machine(const model::Machine& machine, std::ostream& out);
/// `path` is empty if nothing was calibrated.
void write_machine_json(const model::Machine& machine, const std::string& path, std::ostream& out);

}  // namespace weir::cli::internal
