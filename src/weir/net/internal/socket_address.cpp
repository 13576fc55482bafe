#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/text.h>
#include <weir/net/internal/ucx_worker.h>

namespace weir::net::internal {

Result<SocketAddress> resolve(const Address& address) {
  const std::string_view rest = std::string_view(address.text).substr(std::string_view("tcp:").size());
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == rest.size())
    return invalid_argument(concat("address \"", address.text, "\" is not of the form tcp:HOST:PORT"));
  std::string host(rest.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::string(rest.substr(colon + 1)).c_str(), &hints, &found);
      error != 0)
    return Status(ErrorCode::kUnavailable, concat("address \"", address.text, "\": ", ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> release(found, &::freeaddrinfo);
  SocketAddress result;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  result.length = found->ai_addrlen;
  return result;
}

Address to_address(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
    ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
    return {concat("tcp:[", text, "]:", ntohs(six.sin6_port))};
  }
  const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
  ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
  return {concat("tcp:", text, ":", ntohs(four.sin_port))};
}

bool is_loopback(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&six);
  }
  const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
  return storage.ss_family == AF_INET && (ntohl(four.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

namespace {

bool is_same_host(const sockaddr_storage& a, const sockaddr& b) {
  if (a.ss_family != b.sa_family) return false;
  if (a.ss_family == AF_INET6) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                       &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
  }
  return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
         reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
}

// Of this host, with which it would speak to `peer`.  Connecting a socket for datagrams sends nothing, but chooses a
// route.
sockaddr_storage address_towards(const sockaddr_storage& peer) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const Descriptor socket(::socket(peer.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const socklen_t peer_length = peer.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  sockaddr_storage target = peer;
  in_port_t& port = peer.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(target).sin6_port
                                               : reinterpret_cast<sockaddr_in&>(target).sin_port;
  if (port == 0) port = htons(9);
  if (!socket.is_open() || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target), peer_length) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    return {};
  return own;
}

bool is_every_address(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
    return IN6_IS_ADDR_UNSPECIFIED(&six);
  }
  return reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr == INADDR_ANY;
}

}  // namespace

std::string device_of(const sockaddr_storage& storage) {
  if (is_every_address(storage)) return "";
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> release(found, &::freeifaddrs);
  for (const sockaddr_storage& address : {storage, address_towards(storage)}) {
    for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr != nullptr && is_same_host(address, *one->ifa_addr)) return one->ifa_name;
    }
  }
  return "";
}

}  // namespace weir::net::internal
