#pragma once

// Copies into, out of and within a file system, as `weir put`, `weir get` and `weir cp` make them.

#include <weir/cli/internal/fs_connect.h>

namespace weir::cli::internal {

struct TransferOptions {
  FileSystemOptions file_system;
  std::string source;
  std::string target;
  std::string layout;
  std::string view;
  Offset element = 0;
  int jobs = 4;
  bool verify = false;
  bool recursive = false;
  bool is_resumable = false;  ///< An interrupted copy keeps its partial target for the next attempt.
  bool is_quiet = false;      ///< No progress.
  bool has_summary = false;   ///< Say at the end what was copied.
  bool json = false;          ///< The same, in JSON on standard output.
};

/// \returns an exit code: kExitNo if something of a tree was left out, kExitInterrupted after Ctrl-C.
Result<int> put(const TransferOptions& options, Console& console);
Result<int> get(const TransferOptions& options, Console& console);
Result<int> copy_within(const TransferOptions& options, Console& console);

}  // namespace weir::cli::internal
