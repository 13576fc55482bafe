#pragma once

// What the network carries by itself: a plain TCP connection for each rank, 1 MiB a system call.

#include <cstddef>
#include <span>
#include <string>

namespace weir::mpiio_bench {

/// Answers at `address` (an IPv4 address) until it is killed; its port is written to `port_file`.
[[noreturn]] void serve_wire(const std::string& address, const std::string& port_file);

/// One rank's connection to it.
class Wire {
 public:
  /// \param address HOST:PORT
  explicit Wire(const std::string& address);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Returns once the other end has all of it.
  void write(std::span<const std::byte> bytes);
  void read(std::span<std::byte> into);

 private:
  int socket_ = -1;
};

}  // namespace weir::mpiio_bench
