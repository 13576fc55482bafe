#pragma once

#include <iosfwd>

namespace weir::cli {

/// What is known about the place that output goes to.
struct Terminal {
  bool is_terminal = false;  ///< Standard output is one: colours are welcome.
  int columns = 80;
  bool is_error_terminal = false;  ///< Standard error is one: progress is welcome.
};

/// What the command tells the shell.
enum ExitCode : int {
  kExitOk = 0,
  kExitNo = 1,   ///< The question was understood, and the answer is no.
  kExitBad = 2,  ///< Bad usage or bad input, or it failed; stderr says what.
};

/// The `weir` command.  Everything that it reads and writes goes through the three streams (and the files named in
/// arguments), so that tests run it in-process.  \returns an ExitCode.
int run(int argc, const char* const* argv, std::istream& in, std::ostream& out, std::ostream& err,
        const Terminal& terminal = {});

}  // namespace weir::cli
