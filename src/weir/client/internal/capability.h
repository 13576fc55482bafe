#pragma once

// What lets this client use the bytes of a file that it has open: the metadata service gave it, and each server is shown
// it once for each connection.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include <weir/net/net.h>
#include <weir/wire/wire.h>

namespace weir::client::internal {

/// \threadsafety Safe from any thread.
class Capability {
 public:
  Capability(std::uint32_t servers, std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes)), presented_(servers) {}

  [[nodiscard]] std::vector<std::uint8_t> bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

  /// Takes the place of one that has expired.
  void renew(std::vector<std::uint8_t> bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ = std::move(bytes);
    for (auto& generation : presented_) generation = 0;
  }

  /// The call that presents it to a server on the connection of that generation; nothing if that was made before.  Nobody
  /// waits for its answer: if it is refused, so are the calls that follow.
  std::optional<net::Call> presentation(std::uint32_t server, std::uint64_t generation, std::int64_t timeout_ms) {
    if (server >= presented_.size() || presented_[server].load(std::memory_order_relaxed) == generation) return {};
    wire::PresentT table;
    {
      const std::lock_guard lock(mutex_);
      presented_[server] = generation;
      table.capability = bytes_;
    }
    if (table.capability.empty()) return {};
    net::Call call;
    call.head = wire::encode_request(std::move(table), timeout_ms);
    call.done = [](const Result<net::Reply>&) {};
    return call;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::atomic<std::uint64_t>> presented_;  // by server: the generation of the connection
};

}  // namespace weir::client::internal
