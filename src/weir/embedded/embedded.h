#pragma once

#include <memory>

#include <weir/client/file_system.h>

namespace weir {

struct EmbeddedOptions {
  int servers = 1;
  std::string store = "memory";  ///< "memory" or "disk:DIR"
  Offset capacity_bytes = 0;     ///< Of each memory store; 0: half of the machine's memory over all.
  bool direct = true;            ///< See client::ConnectOptions.
  bool verifies_memory = false;  ///< See server::Options.
};

/// A file system inside this process: the same servers, each in a thread, reached without a network.  They stop with
/// the last copy of it.
class Embedded {
 public:
  [[nodiscard]] const client::FileSystem& file_system() const;

 private:
  friend Result<Embedded> embedded(const EmbeddedOptions& options);
  struct State;
  std::shared_ptr<State> state_;
};

/// \error kInvalidArgument, kIoError
Result<Embedded> embedded(const EmbeddedOptions& options = {});

}  // namespace weir
