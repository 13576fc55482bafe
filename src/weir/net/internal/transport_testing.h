#pragma once

// For tests that run over all transports: "local", "rings", "tcp", "tls", "ucx".

#include <cstdlib>
#include <string>
#include <vector>

namespace weir::net::internal {

/// Whether servers of this transport need a port on the loopback device.
inline bool opens_port(const std::string& transport) {
  return transport == "tcp" || transport == "tls" || transport == "ucx";
}

/// Settings of a transport, as long as this exists.  For "ucx", UCX's TCP on the loopback device stands in for a fabric.
class TransportSettings {
 public:
  explicit TransportSettings(const std::string& transport) {
    if (transport == "tls") set("WEIR_ENCRYPTION", "always");
    if (transport != "ucx") return;
    set("WEIR_FABRIC", "lo");
    set("WEIR_UCX_TLS", "tcp");
  }
  TransportSettings(const TransportSettings&) = delete;
  TransportSettings& operator=(const TransportSettings&) = delete;
  ~TransportSettings() {
    for (const char* name : names_) ::unsetenv(name);
  }

 private:
  void set(const char* name, const char* value) {
    ::setenv(name, value, 1);
    names_.push_back(name);
  }

  std::vector<const char*> names_;
};

}  // namespace weir::net::internal
