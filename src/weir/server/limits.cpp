#include <weir/server/limits.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include <weir/base/text.h>

namespace weir::server {

namespace {

constexpr std::size_t kLeastConnections = 16;
constexpr std::size_t kMostNumber = 1'000'000'000;
constexpr std::size_t kMiB = std::size_t{1} << 20;
/// What all connections may hold together, as a multiple of what one may.
constexpr std::size_t kTogether = 8;
/// Unread answers get so much less than requests.
constexpr std::size_t kUnreadShare = 16;
/// A head of the greatest length must fit.
constexpr std::size_t kLeastMemoryMiB = 32;

Status set(const runtime::Settings& settings, const char* name, std::size_t least, std::size_t most,
           std::size_t& value) {
  const std::string text = settings.get(name);
  if (text.empty()) return Status::ok();
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    return invalid_argument(concat(name, ": '", text, "' is not a number from ", least, " to ", most));
  value = number;
  return Status::ok();
}

}  // namespace

Result<Limits> Limits::from(const runtime::Settings& settings, Limits by_default) {
  Limits limits = by_default;
  std::size_t memory_mib = limits.net.request_bytes / kMiB;
  auto stall_s = static_cast<std::size_t>(std::chrono::duration_cast<std::chrono::seconds>(limits.stall).count());
  const std::size_t before_mib = memory_mib;
  const std::size_t before_s = stall_s;
  WEIR_RETURN_IF_ERROR(set(settings, "WEIR_LIMIT_CONNECTIONS", 1, kMostNumber, limits.net.connections));
  WEIR_RETURN_IF_ERROR(set(settings, "WEIR_LIMIT_USER_CONNECTIONS", 1, kMostNumber, limits.net.user_connections));
  WEIR_RETURN_IF_ERROR(set(settings, "WEIR_LIMIT_REQUESTS", 1, kMostNumber, limits.net.requests));
  WEIR_RETURN_IF_ERROR(set(settings, "WEIR_LIMIT_MEMORY", kLeastMemoryMiB, std::size_t{1} << 30, memory_mib));
  WEIR_RETURN_IF_ERROR(set(settings, "WEIR_LIMIT_VIEWS", 1, kMostNumber, limits.views));
  WEIR_RETURN_IF_ERROR(set(settings, "WEIR_LIMIT_LOCKS", 1, kMostNumber, limits.locks));
  WEIR_RETURN_IF_ERROR(set(settings, "WEIR_LIMIT_STALL", 1, 86'400, stall_s));
  if (memory_mib != before_mib) {
    limits.net.request_bytes = memory_mib * kMiB;
    limits.net.total_request_bytes = kTogether * limits.net.request_bytes;
    limits.net.unread_bytes = limits.net.request_bytes / kUnreadShare;
    limits.net.total_unread_bytes = kTogether * limits.net.unread_bytes;
  }
  if (stall_s != before_s) limits.stall = std::chrono::seconds(stall_s);
  return limits;
}

void Limits::fit_connections(std::size_t open_files) {
  if (net.connections == 0) net.connections = std::max(open_files / 4, kLeastConnections);
  if (net.user_connections == 0) net.user_connections = std::max<std::size_t>(net.connections / 2, 1);
}

}  // namespace weir::server
