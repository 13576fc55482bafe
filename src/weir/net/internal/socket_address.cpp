#include <weir/net/internal/socket_address.h>

#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <weir/base/text.h>

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

}  // namespace weir::net::internal
