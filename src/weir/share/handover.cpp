#include <weir/share/handover.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include <weir/base/os_error.h>
#include <weir/base/poll.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/base/unix_socket.h>

namespace weir::share {

Result<Shown> Shown::of(int descriptor) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) {
    return os_error(ErrorCode::kIoError, "handover of memory: fstat");
  }
  return Shown{descriptor, info.st_dev, info.st_ino};
}

Descriptor reopen_for_reading(int descriptor) {
  return Descriptor(open(concat("/proc/self/fd/", descriptor).c_str(), O_RDONLY | O_CLOEXEC));
}

Result<Handed> open_memory(int process, const Shown& memory, const Shown& lifeline) {
  const auto open_shown = [process](const Shown& shown, int mode) -> Result<Descriptor> {
    const std::string path = concat("/proc/", process, "/fd/", shown.number);
    // It may be anything: a pipe that nobody writes to must not keep us waiting, a terminal must not become ours.
    Descriptor opened(open(path.c_str(), mode | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!opened.is_open()) {
      return os_error(errno == ENOENT ? ErrorCode::kUnavailable : ErrorCode::kPermission,
                      concat("handover of memory: ", path));
    }
    // The kernel reuses the numbers of processes and descriptors.
    WEIR_TRY(const Shown seen, Shown::of(opened.get()));
    if (seen.device != shown.device || seen.file != shown.file) {
      return Status{ErrorCode::kUnavailable, concat("handover of memory: ", path, " is another file now")};
    }
    return opened;
  };
  WEIR_TRY(Descriptor opened, open_shown(memory, O_RDWR));
  WEIR_TRY(Descriptor life, open_shown(lifeline, O_RDONLY));
  return Handed{std::move(opened), std::move(life)};
}

Result<Handed> fetch_memory(const std::string& socket_name, std::span<const std::uint8_t> token,
                            runtime::TimePoint deadline) {
  const auto unavailable = [&](const char* step) {
    return os_error(ErrorCode::kUnavailable, concat("handover of memory from socket @", socket_name, ": ", step));
  };
  UnixAddress address;
  if (!make_abstract(socket_name, address)) {
    return invalid_argument(concat("handover: \"", socket_name, "\" is not the name of a socket"));
  }
  // Whoever has the socket may accept nobody: connecting must not wait for that beyond the deadline.
  const Descriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection.is_open()) return unavailable("socket");
  if (uninterrupted([&] { return connect(connection.get(), address.get(), address.bytes); }) != 0)
    return unavailable("connect");
  const ssize_t sent = uninterrupted([&] { return send(connection.get(), token.data(), token.size(), MSG_NOSIGNAL); });
  if (sent != static_cast<ssize_t>(token.size())) return unavailable("send");
  const int ready = wait_readable(connection.get(), deadline);
  if (ready == 0) errno = ETIMEDOUT;
  if (ready <= 0) return unavailable("wait for the answer");
  Descriptor handed[2];
  if (receive_descriptors(connection.get(), handed)) return Handed{std::move(handed[0]), std::move(handed[1])};
  return Status{ErrorCode::kPermission, concat("handover of memory from socket @", socket_name,
                                               ": the server did not accept the token: ask it to share again")};
}

}  // namespace weir::share
