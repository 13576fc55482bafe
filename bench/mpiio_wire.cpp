#include "mpiio_wire.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mpiio_patterns.h"

namespace weir::mpiio_bench {

namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

struct Order {
  std::uint64_t written_bytes = 0;
  std::uint64_t read_bytes = 0;
};

bool send_all(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), std::min(kPieceBytes, bytes.size()), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_all(int socket, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t received = ::recv(socket, into.data(), std::min(kPieceBytes, into.size()), 0);
    if (received <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(received));
  }
  return true;
}

std::span<std::byte> bytes_of(Order& order) { return std::as_writable_bytes(std::span(&order, 1)); }

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Bytes go into one buffer, and come from it.
void answer(int socket) {
  send_at_once(socket);
  std::vector<std::byte> buffer(kPieceBytes, std::byte{1});
  Order order;
  bool is_open = true;
  while (is_open && receive_all(socket, bytes_of(order))) {
    while (is_open && order.written_bytes > 0) {
      const ssize_t received = ::recv(socket, buffer.data(), std::min(kPieceBytes, order.written_bytes), 0);
      is_open = received > 0;
      if (is_open) order.written_bytes -= static_cast<std::uint64_t>(received);
    }
    if (is_open && order.read_bytes == 0) is_open = send_all(socket, std::span(buffer).first(1));
    while (is_open && order.read_bytes > 0) {
      const std::size_t some = std::min(kPieceBytes, order.read_bytes);
      is_open = send_all(socket, std::span(buffer).first(some));
      order.read_bytes -= some;
    }
  }
  ::close(socket);
}

sockaddr_in to_address(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  require(::inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1, "not an IPv4 address: " + host);
  return address;
}

}  // namespace

void serve_wire(const std::string& address, const std::string& port_file) {
  sockaddr_in place = to_address(address, 0);
  socklen_t length = sizeof place;
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(::bind(listening, reinterpret_cast<const sockaddr*>(&place), length) == 0 && ::listen(listening, 64) == 0 &&
              ::getsockname(listening, reinterpret_cast<sockaddr*>(&place), &length) == 0,
          "cannot listen on " + address);
  std::FILE* const file = std::fopen(port_file.c_str(), "w");
  require(file != nullptr && std::fprintf(file, "%d\n", ntohs(place.sin_port)) > 0 && std::fclose(file) == 0,
          "cannot write " + port_file);
  while (true) {
    const int socket = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) std::thread(answer, socket).detach();
  }
}

Wire::Wire(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  require(colon != std::string::npos, "not HOST:PORT: " + address);
  const sockaddr_in place = to_address(address.substr(0, colon), std::atoi(address.c_str() + colon + 1));
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(::connect(socket_, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0,
          "cannot connect to " + address);
  send_at_once(socket_);
}

Wire::~Wire() { ::close(socket_); }

void Wire::write(std::span<const std::byte> bytes) {
  Order order{bytes.size(), 0};
  std::byte confirmation{};
  require(send_all(socket_, bytes_of(order)) && send_all(socket_, bytes) &&
              receive_all(socket_, std::span(&confirmation, 1)),
          "the other end of the wire is gone");
}

void Wire::read(std::span<std::byte> into) {
  if (into.empty()) return;
  Order order{0, into.size()};
  require(send_all(socket_, bytes_of(order)) && receive_all(socket_, into), "the other end of the wire is gone");
}

}  // namespace weir::mpiio_bench
