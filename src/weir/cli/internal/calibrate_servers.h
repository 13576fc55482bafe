#pragma once

// What servers cost: by message, and by mapping their memory.  Measured with servers inside this process, and over the
// network with those of a file system that runs on other hosts.

#include <weir/model/calibrate_io.h>

namespace weir::cli::internal {

/// Sets `server`, and of `memory` what mapping, first and later copies, pieces and idle bytes cost.
Status calibrate_servers(const model::Effort& effort, model::Io& io);

/// Requests to the servers of a file system, all by message.  Makes a file there and removes it.
/// \error as client::FileSystem::connect() and its calls
Result<model::Requests> calibrate_remote(const std::string& file_system, const model::Effort& effort);

}  // namespace weir::cli::internal
