// Descriptors that come from a peer which sends anything: no message, an empty one, a long one, more or fewer
// descriptors, or none; and tokens that come to the server which hands memory out.  Nothing is left open, and the
// server still hands over to those who have a good token.
//
// Input: messages; each one says how long it is, and what comes with it.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/testing/fuzz_input.h>
#include <weir/base/unix_socket.h>
#include <weir/log/log.h>
#include <weir/share/handover.h>
#include <weir/share/handover_server.h>
#include <weir/share/lifeline.h>
#include <weir/share/mapped_subfile.h>

namespace {

using namespace weir;
using testing::FuzzInput;
using testing::require;

constexpr std::size_t kMostSent = 6;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

void send_any(FuzzInput& in, int socket) {
  std::array<int, kMostSent> sent{};
  const std::size_t count = in.below(kMostSent + 1);
  std::vector<Descriptor> own;
  for (std::size_t i = 0; i < count; ++i) {
    own.emplace_back(in.flag() ? memfd_create("fuzz", MFD_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (in.flag()) (void)ftruncate(own.back().get(), in.number());
    sent[i] = own.back().get();
  }
  std::vector<std::uint8_t> bytes = in.bytes(70);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof sent)> room{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = room.data();
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(control), sent.data(), count * sizeof(int));
  }
  (void)sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void receive_any(FuzzInput& in) {
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0, "socketpair");
  Descriptor theirs(ends[0]);
  const Descriptor ours(ends[1]);
  const std::size_t messages = in.below(3);
  for (std::size_t i = 0; i < messages; ++i) send_any(in, theirs.get());
  if (in.flag()) theirs.reset();
  for (std::size_t i = 0; i < messages + 1; ++i) {
    std::array<Descriptor, kMostDescriptors> came;
    const std::size_t wanted = in.below(kMostDescriptors + 1);
    if (!receive_descriptors(ours.get(), std::span(came).first(wanted)) || wanted < 2) continue;
    require(came[0].is_open() && came[1].is_open(), "as many as were wanted");
    auto lifeline = share::Lifeline::map(came[1].get());
    if (lifeline.is_ok()) (void)share::MappedSubfile::map(came[0].get(), std::move(*lifeline), 1);
  }
}

/// Made once: it has a thread.
share::HandoverServer& server() {
  static const std::unique_ptr<share::HandoverServer> started = [] {
    auto made = share::HandoverServer::start();
    require(made.is_ok(), "the server starts");
    return std::move(*made);
  }();
  return *started;
}

Descriptor connect_to_server() {
  UnixAddress address;
  require(make_abstract(server().socket(), address), "the name of the socket");
  Descriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  require(connect(connection.get(), address.get(), address.bytes) == 0, "connect");
  return connection;
}

void ask_server(FuzzInput& in) {
  static const Descriptor memory(memfd_create("fuzz", MFD_CLOEXEC));
  const auto token = server().offer(memory.get(), in.flag(), getuid());
  require(token.is_ok(), "offer");
  {
    const Descriptor connection = connect_to_server();
    send_any(in, connection.get());
    if (in.flag()) send_any(in, connection.get());
  }
  std::vector<std::uint8_t> shown = *token;
  const bool is_changed = in.flag();
  if (is_changed) shown[in.byte() % shown.size()] ^= 1;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto handed = share::fetch_memory(server().socket(), shown, deadline);
  require(handed.is_ok() != is_changed, "just a good token gets memory");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  log::set_level(log::Level::kOff);
  (void)server();
  FuzzInput in(data, size);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 8 && !in.empty(); ++i) in.below(4) == 0 ? ask_server(in) : receive_any(in);
  // Offers that nobody came for are open, and what the server is about to close.
  require(open_descriptors() <= before + 20, "descriptors are closed");
  return 0;
}
