#pragma once

// Copies of whole files into and out of a file system, as `weir put` and `weir get` make them.

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
  bool is_resumable = true;  ///< get: what is there of a copy that failed stays, for the next try.
};

/// \returns an exit code; kExitInterrupted after Ctrl-C.
Result<int> put(const TransferOptions& options, Console& console);
Result<int> get(const TransferOptions& options, Console& console);

}  // namespace weir::cli::internal
