#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <optional>
#include <string_view>

namespace weir::server::internal {

struct SocketAddress {
  sockaddr_un storage{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// The abstract socket of this name, which is gone with the last descriptor of it.  \returns false if the name is empty or too long
bool make_abstract(std::string_view name, SocketAddress& address);

/// Two descriptors that go together.
using DescriptorPair = std::array<int, 2>;

/// One byte with both, or without any if there is nothing to send.  \returns false if it cannot be sent
bool send_descriptors(int connection, const std::optional<DescriptorPair>& descriptors);
/// Those that came with the next message, for the caller to close.
std::optional<DescriptorPair> receive_descriptors(int connection);

}  // namespace weir::server::internal
