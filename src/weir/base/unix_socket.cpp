#include <weir/base/unix_socket.h>

#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>

namespace weir {

namespace {

/// A message of one byte, with room for descriptors beside it.
struct Message {
  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = room;
    header.msg_controllen = sizeof room;
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr header{};
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

Result<Descriptor> listen_abstract(std::string_view name) {
  const auto failed = [&](const char* step) {
    return os_error(ErrorCode::kIoError, concat("socket @", name, ": ", step));
  };
  UnixAddress address;
  if (!make_abstract(name, address))
    return invalid_argument(concat("socket @", name, ": the name is empty or too long"));
  Descriptor listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.is_open()) return failed("socket");
  if (::bind(listener.get(), address.get(), address.bytes) != 0) return failed("bind");
  if (::listen(listener.get(), SOMAXCONN) != 0) return failed("listen");
  return listener;
}

bool send_descriptors(int connection, std::span<const int> descriptors) {
  assert(descriptors.size() <= kMostDescriptors);
  Message message;
  message.header.msg_controllen = descriptors.empty() ? 0 : CMSG_SPACE(descriptors.size_bytes());
  if (!descriptors.empty()) {
    cmsghdr* control = CMSG_FIRSTHDR(&message.header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(control), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(connection, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

bool receive_descriptors(int connection, std::span<Descriptor> descriptors) {
  Message message;
  const ssize_t bytes = uninterrupted([&] { return recvmsg(connection, &message.header, MSG_CMSG_CLOEXEC); });
  if (bytes < 0) return false;
  // Whatever came is ours to close, also with a message of no bytes, and if it is more or less than was expected, as when
  // this process has no room for all.
  Descriptor came[kMostDescriptors];
  std::size_t count = 0;
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  if (control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS)
    count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count && i < kMostDescriptors; ++i) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(control) + i * sizeof(int), sizeof number);
    came[i] = Descriptor(number);
  }
  if (bytes != 1 || count != descriptors.size()) return false;
  for (std::size_t i = 0; i < count; ++i) descriptors[i] = std::move(came[i]);
  return true;
}

}  // namespace weir
