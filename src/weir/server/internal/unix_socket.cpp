#include <weir/server/internal/unix_socket.h>

#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace weir::server::internal {

namespace {

/// Room for the descriptors in the control part of a message.
union ControlRoom {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(sizeof(DescriptorPair))];
};

}  // namespace

bool make_abstract(std::string_view name, SocketAddress& address) {
  if (name.empty() || name.size() + 1 > sizeof(address.storage.sun_path)) return false;
  address.storage.sun_family = AF_UNIX;
  address.storage.sun_path[0] = '\0';
  std::memcpy(address.storage.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return true;
}

bool send_descriptors(int connection, const std::optional<DescriptorPair>& descriptors) {
  char answer = descriptors ? 1 : 0;
  iovec data{&answer, 1};
  ControlRoom room{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptors) {
    message.msg_control = room.bytes;
    message.msg_controllen = sizeof room.bytes;
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(DescriptorPair));
    std::memcpy(CMSG_DATA(control), descriptors->data(), sizeof(DescriptorPair));
  }
  return sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

std::optional<DescriptorPair> receive_descriptors(int connection) {
  char answer = 0;
  iovec data{&answer, 1};
  ControlRoom room{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes;
  message.msg_controllen = sizeof room.bytes;
  if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1 || answer != 1) return std::nullopt;
  const cmsghdr* control = CMSG_FIRSTHDR(&message);
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) return std::nullopt;
  DescriptorPair descriptors{-1, -1};
  if (control->cmsg_len == CMSG_LEN(sizeof descriptors)) {
    std::memcpy(descriptors.data(), CMSG_DATA(control), sizeof descriptors);
    return descriptors;
  }
  // The process has no room for both: the one that came is of no use alone.
  if (control->cmsg_len == CMSG_LEN(sizeof(int))) {
    std::memcpy(descriptors.data(), CMSG_DATA(control), sizeof(int));
    close(descriptors[0]);
  }
  return std::nullopt;
}

}  // namespace weir::server::internal
