#pragma once

// Copies into the file system of a job before its command, and out of it afterwards; whole folders too.

#include <weir/cli/internal/fs_copy.h>

namespace weir::cli::internal {

struct Stage {
  std::string source;
  std::string target;
};

/// "SRC[:DST]": a local file or folder, and its name in the file system [/ and its last part].
Result<Stage> parse_stage_in(const std::string& text);
/// "NAME[:DST]": a name in the file system, and the local one [its last part, here].
Result<Stage> parse_stage_out(const std::string& text);

/// What can be known to fail is said before anything runs: a source that cannot be read, a place that cannot be written to.
Status check_stage_in(const Stage& stage);
Status check_stage_out(const Stage& stage);

/// `layout` may be empty.  \returns an exit code
Result<int> stage_in(const std::string& connection, const Stage& stage, const std::string& layout, Console& console);
Result<int> stage_out(const std::string& connection, const Stage& stage, Console& console);

}  // namespace weir::cli::internal
