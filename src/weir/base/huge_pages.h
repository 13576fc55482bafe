#pragma once

// Huge pages of anonymous files (in a tmpfs mounted with huge=advise), asked for only where they come fast.  On most
// systems one is made in a tenth of the time of the small pages in its place.  In virtual machines that give free
// memory back to their host, it may take ten times as long instead: free memory in large pieces is what the host has
// taken.

#include <atomic>
#include <chrono>
#include <cstdint>

#include <weir/base/checked.h>

namespace weir {

/// \threadsafety Safe.
class HugePages {
 public:
  /// Those of this process: what one thread finds out, all know.
  static HugePages& here() noexcept;

  /// After a page that came slowly it is false for many calls: so many small pages are made meanwhile that trying again
  /// costs little.
  [[nodiscard]] bool is_worth_asking() noexcept;
  /// Whether the last one came slowly.
  [[nodiscard]] bool are_slow() const noexcept { return skip_.load(std::memory_order_relaxed) > 0; }
  /// Another process has found out.
  void assume_slow() noexcept;

  /// Makes the pages of [at, at + kHugePageBytes) of the file that are missing; existing ones keep their bytes.  False
  /// if there is no memory for them, or the kernel cannot do it.  \pre at is a multiple of kHugePageBytes
  bool make(int descriptor, Offset at) noexcept;

  /// For make(), and for tests: one took so long.
  void note(std::chrono::nanoseconds time) noexcept;

 private:
  std::atomic<std::int64_t> skip_{0};  // so many calls of is_worth_asking()
  std::atomic<std::int64_t> next_skip_{0};
};

}  // namespace weir
