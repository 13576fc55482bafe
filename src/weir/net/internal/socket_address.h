#pragma once

// Addresses "tcp:HOST:PORT" as sockets know them.

#include <sys/socket.h>

#include <weir/base/result.h>
#include <weir/net/net.h>

namespace weir::net::internal {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// Of "tcp:HOST:PORT"; HOST may be a name, an address, or an IPv6 address in brackets.  \error kInvalidArgument,
/// kUnavailable
Result<SocketAddress> resolve(const Address& address);
/// The other way round.
Address to_address(const sockaddr_storage& storage);
/// Whether only this host reaches it.
bool is_loopback(const sockaddr_storage& storage);

}  // namespace weir::net::internal
