#pragma once

#include <optional>
#include <string>

#include <weir/client/file_system.h>

namespace weir::mpiio::internal {

/// The file system of this process, connected to when the first file is opened; tried again if that failed.
///
/// Lives until the process is gone: files may be open, and used, while the program ends.  WEIR_DIRECT=off: all bytes go
/// by message, also where the memory of a server could be mapped.
Result<client::FileSystem> file_system();

/// The path in the file system that a file name of a program means: `weir:/x`, or a name below the directory
/// WEIR_PREFIX.  Nothing if the name is not ours.
std::optional<std::string> path_of(const char* name);

}  // namespace weir::mpiio::internal
