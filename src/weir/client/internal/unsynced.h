#pragma once

// Which servers have bytes that were written and not synced since, and in which of their lives ("boots") they got them.
// A server that was started again may have lost them.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace weir::client::internal {

/// \threadsafety Safe from any thread.
class Unsynced {
 public:
  /// Not a boot of any server: bytes went to more than one of its lives.
  static constexpr std::uint64_t kSeveral = ~std::uint64_t{0};

  explicit Unsynced(std::uint32_t servers) : boots_(servers), ever_(servers) {}

  [[nodiscard]] std::uint32_t server_count() const { return static_cast<std::uint32_t>(boots_.size()); }

  /// Called when it is written: by the time anybody can ask for a sync of it.
  void note(std::uint32_t server, std::uint64_t boot) noexcept {
    if (server >= boots_.size()) return;
    std::atomic<std::uint64_t>& noted = boots_[server];
    std::uint64_t seen = noted.load(std::memory_order_relaxed);
    while (seen != boot && boot != 0 && !noted.compare_exchange_weak(seen, seen == 0 ? boot : kSeveral)) {
    }
    if (boot != 0 && ever_[server].load(std::memory_order_relaxed) != boot) ever_[server] = boot;
  }

  /// In which of its lives the server last got bytes, synced or not; 0: it never did.
  [[nodiscard]] std::uint64_t last_noted(std::uint32_t server) const noexcept { return ever_[server].load(); }

  /// Something was noted since it was last taken.
  [[nodiscard]] bool has_any() const noexcept {
    return std::any_of(boots_.begin(), boots_.end(), [](const auto& boot) { return boot.load() != 0; });
  }

  /// What was noted, 0 for nothing.  From now on, nothing is.
  std::vector<std::uint64_t> take() noexcept {
    std::vector<std::uint64_t> taken(boots_.size());
    for (std::size_t i = 0; i < boots_.size(); ++i) taken[i] = boots_[i].exchange(0);
    return taken;
  }
  void put_back(const std::vector<std::uint64_t>& taken) noexcept {
    for (std::uint32_t i = 0; i < taken.size(); ++i) note(i, taken[i]);
  }

 private:
  std::vector<std::atomic<std::uint64_t>> boots_;
  std::vector<std::atomic<std::uint64_t>> ever_;
};

}  // namespace weir::client::internal
