#include <weir/launch/internal/node_address.h>

#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <weir/base/descriptor.h>
#include <weir/base/text.h>

namespace weir::launch::internal {

namespace {

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Found look_up(const std::string& name, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), "9", &hints, &found) != 0) found = nullptr;
  return {found, &::freeaddrinfo};
}

// Digits; empty if only this node reaches it.
std::string digits_of(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.sa_family == AF_INET) {
    const in_addr& four = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    const bool is_loopback = (ntohl(four.s_addr) >> 24) == IN_LOOPBACKNET;
    return is_loopback ? "" : ::inet_ntop(AF_INET, &four, text, sizeof text);
  }
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (address.sa_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&six) || IN6_IS_ADDR_LINKLOCAL(&six)) return "";
  return concat("[", ::inet_ntop(AF_INET6, &six, text, sizeof text), "]");
}

std::string address_of_name(const std::string& name) {
  const Found found = look_up(name, 0);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
      const std::string digits = one->ai_family == family ? digits_of(*one->ai_addr) : "";
      if (!digits.empty()) return digits;
    }
  }
  return "";
}

// Connecting a socket for datagrams sends nothing, but chooses a way.
std::string address_towards(const std::string& peer) {
  const Found found = look_up(peer, AI_NUMERICHOST);
  if (peer.empty() || found == nullptr) return "";
  const Descriptor socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (!socket.is_open() || ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) return "";
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) return "";
  return digits_of(reinterpret_cast<const sockaddr&>(own));
}

}  // namespace

std::string address_of_node(const std::string& name, const std::string& peer) {
  std::string address = address_of_name(name);
  if (address.empty()) address = address_towards(peer);
  return address.empty() ? name : address;
}

}  // namespace weir::launch::internal
