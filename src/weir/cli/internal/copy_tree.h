#pragma once

// What a recursive copy has to do, found out before it begins.

#include <string>
#include <vector>

#include <weir/client/file_system.h>

namespace weir::cli::internal {

struct CopyTask {
  std::string source;
  std::string target;
  Offset bytes = 0;
};

struct CopyPlan {
  std::vector<std::string> folders;  ///< To be made, parents first.
  std::vector<CopyTask> files;
  Offset bytes = 0;
  std::vector<std::string> left_out;  ///< Why, with the name.

  void add(CopyTask task);
};

/// Links to files are followed.  Left out are links to folders (they may lead in circles), pipes, sockets and devices.
Result<CopyPlan> plan_local_tree(const std::string& source, const std::string& target);
Result<CopyPlan> plan_weir_tree(const client::FileSystem& fs, const std::string& source, const std::string& target);

/// Whether `name` can be an entry of a directory: servers are not trusted to say so.
bool is_entry_name(const std::string& name);

std::string join_path(const std::string& folder, const std::string& name);

}  // namespace weir::cli::internal
