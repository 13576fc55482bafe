#pragma once

// The small file that says how to reach a file system: its servers in order, and its key.  Every user who may read it
// may use the file system, so it is for its owner only.
//
//   version = 1
//   key = "64 hex digits"            or   key_file = "name of a file, relative to this one"
//   servers = ["tcp:127.0.0.1:7001", "tcp:127.0.0.1:7002"]

#include <string>
#include <vector>

#include <weir/net/net.h>

namespace weir::client {

struct ConnectionFile {
  net::Key key;
  std::vector<net::Address> servers;

  /// \error kNotFound, kIoError; kPermission if others may read it; kInvalidArgument names what is wrong in it, or says
  /// that it is not a
  ///        file or has more than 1 MiB
  static Result<ConnectionFile> read(const std::string& path);
  /// Replaces the file as a whole; readable by its owner only.  \error kIoError
  [[nodiscard]] Status write(const std::string& path) const;
};

/// Where `weir up` puts it if not told otherwise: $XDG_RUNTIME_DIR/weir/fs.toml, or ~/.weir/fs.toml.
/// \error kInvalidArgument if neither XDG_RUNTIME_DIR nor HOME is set
Result<std::string> default_connection_file(const runtime::Settings& settings = *runtime::system_runtime().settings);

}  // namespace weir::client
