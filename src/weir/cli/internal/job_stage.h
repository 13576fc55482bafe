#pragma once

// Copies into the file system of a job before its command, and out of it afterwards; whole folders too.

#include <functional>
#include <optional>

#include <weir/cli/internal/fs_copy.h>
#include <weir/launch/manifest.h>

namespace weir::cli::internal {

struct Stage {
  std::string source;
  std::string target;
};

/// What is copied out: a file or folder by name, or all files whose names match a pattern.
struct StageOut {
  std::string
      source;  ///< A name, or a pattern: * and ? within a part of a name, [...]; "/" with `is_pattern`: everything.
  std::string target;
  bool is_pattern = false;

  /// Where the file of that name goes; nothing if it is not among those that are copied.  Below a folder or pattern,
  /// names are kept from the last folder on that the pattern spells out: /run/*/x of /run/1/x goes to TARGET/1/x.
  [[nodiscard]] std::optional<std::string> target_of(const std::string& path) const;
  /// As the user wrote it.
  [[nodiscard]] std::string name() const { return is_pattern && source == "/" ? "all" : source; }
};

/// "SRC[:DST]": a local file or folder, and its name in the file system [/ and its last part].
Result<Stage> parse_stage_in(const std::string& text);
/// "NAME[:DST]": a name in the file system, and the local one [its last part, here]; "PATTERN[:FOLDER]" [here];
/// "all[:FOLDER]" [here].
Result<StageOut> parse_stage_out(const std::string& text);

/// What can be known to fail is said before anything runs: a source that cannot be read, a place that cannot be written
/// to.
Status check_stage_in(const Stage& stage);
Status check_stage_out(const StageOut& stage);

/// `layout` may be empty.  What was copied is added to `copied`.  \returns an exit code
Result<int> stage_in(const std::string& connection, const Stage& stage, const std::string& layout,
                     launch::Manifest& copied, Console& console);

/// Which files need no copy, since what is outside is the same.
using IsKnown = std::function<bool(const std::string& path, const client::Stat& found)>;

struct StageOutOptions {
  IsKnown is_drained;  ///< Copied already.
  IsKnown is_input;    ///< Staged in and not changed since: patterns leave it out.
};

/// \returns an exit code  \error kNotFound if there is no such file, or none that matches ("all" may be nothing)
Result<int> stage_out(const std::string& connection, const StageOut& stage, const StageOutOptions& options,
                      Console& console);
/// One file, to `target`, whose folder is made if it is not there.
Result<int> stage_out_file(const std::string& connection, const std::string& path, const std::string& target,
                           Console& console);

/// Calls `visit` for everything below a directory, folders before what they hold.  What goes away meanwhile is left
/// out.
Status walk(const client::FileSystem& file_system, const std::string& directory,
            const std::function<Status(const std::string& path, bool is_directory)>& visit);

}  // namespace weir::cli::internal
