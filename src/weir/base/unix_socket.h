#pragma once

// Abstract Unix sockets, and descriptors that travel through them.

#include <span>
#include <string_view>

#include <sys/socket.h>
#include <sys/un.h>

#include <weir/base/descriptor.h>
#include <weir/base/result.h>

namespace weir {

struct UnixAddress {
  sockaddr_un storage{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// The abstract socket of this name, which is gone with the last descriptor of it.  \returns false if the name is empty
/// or too long
bool make_abstract(std::string_view name, UnixAddress& address);

/// Takes connections to it; reads and writes do not wait.  \error kInvalidArgument, kIoError
Result<Descriptor> listen_abstract(std::string_view name);

/// At most so many in one message.
inline constexpr std::size_t kMostDescriptors = 2;

/// One message of one byte with all of them; never waits.  \returns false if it cannot be sent
bool send_descriptors(int connection, std::span<const int> descriptors);
/// Those that came with the next message.  \returns false, and gives none, if it does not bring just as many
bool receive_descriptors(int connection, std::span<Descriptor> descriptors);

}  // namespace weir
