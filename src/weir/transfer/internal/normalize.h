#pragma once

#include <weir/transfer/internal/program.h>

namespace weir::transfer::internal {

/// The same moves in fewer loops and families.  A mapping keeps apart what differs in a third place (the file, or the
/// other end of a message) and what its period divides; between the two sides of a program that is often one loop, or
/// none.  In key order.
std::vector<Program::Input> normalize(std::vector<Program::Input> inputs, Key key);

}  // namespace weir::transfer::internal
