#include <weir/base/unix_socket.h>

#include <cassert>
#include <cstddef>
#include <cstring>

namespace weir {

namespace {

/// Room for descriptors in the control part of a message.
union ControlRoom {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(kMostDescriptors * sizeof(int))];
};

}  // namespace

bool make_abstract(std::string_view name, UnixAddress& address) {
  if (name.empty() || name.size() + 1 > sizeof(address.storage.sun_path)) return false;
  address.storage.sun_family = AF_UNIX;
  address.storage.sun_path[0] = '\0';
  std::memcpy(address.storage.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return true;
}

bool send_descriptors(int connection, std::span<const int> descriptors) {
  assert(descriptors.size() <= kMostDescriptors);
  char byte = 1;
  iovec data{&byte, 1};
  ControlRoom room{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = room.bytes;
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(control), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

bool receive_descriptors(int connection, std::span<Descriptor> descriptors) {
  char byte = 0;
  iovec data{&byte, 1};
  ControlRoom room{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes;
  message.msg_controllen = sizeof room.bytes;
  if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1) return false;
  const cmsghdr* control = CMSG_FIRSTHDR(&message);
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
    return descriptors.empty();
  // Whatever came is ours to close, also if it is more or less than was expected, as when this process has no room for all.
  const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  Descriptor came[kMostDescriptors];
  for (std::size_t i = 0; i < count && i < kMostDescriptors; ++i) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(control) + i * sizeof(int), sizeof number);
    came[i] = Descriptor(number);
  }
  if (count != descriptors.size()) return false;
  for (std::size_t i = 0; i < count; ++i) descriptors[i] = std::move(came[i]);
  return true;
}

}  // namespace weir
