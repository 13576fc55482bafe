#include <weir/base/huge_pages.h>

#include <algorithm>

#include <weir/base/aligned_memory.h>
#include <weir/base/madvise.h>

namespace weir {

namespace {

/// Small pages take about this.
constexpr std::chrono::milliseconds kSlow{1};
constexpr std::int64_t kFirstSkip = 128;
constexpr std::int64_t kMostSkip = 4096;

}  // namespace

HugePages& HugePages::here() noexcept {
  static HugePages pages;
  return pages;
}

bool HugePages::is_worth_asking() noexcept {
  return skip_.load(std::memory_order_relaxed) <= 0 || skip_.fetch_sub(1, std::memory_order_relaxed) <= 0;
}

void HugePages::assume_slow() noexcept {
  if (next_skip_.load(std::memory_order_relaxed) == 0) note(2 * kSlow);
}

void HugePages::note(std::chrono::nanoseconds time) noexcept {
  if (time < kSlow) {
    next_skip_.store(kFirstSkip, std::memory_order_relaxed);
    skip_.store(0, std::memory_order_relaxed);
    return;
  }
  const std::int64_t skip = std::clamp(next_skip_.load(std::memory_order_relaxed), kFirstSkip, kMostSkip);
  skip_.store(skip, std::memory_order_relaxed);
  next_skip_.store(2 * skip, std::memory_order_relaxed);
}

bool HugePages::make(int descriptor, Offset at) noexcept {
  const auto start = std::chrono::steady_clock::now();
  // Mapped for this alone: elsewhere the file is touched with small pages in mind.
  void* memory = ::mmap(nullptr, kHugePageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, at);
  if (memory == MAP_FAILED) return false;
  const bool is_made = ::madvise(memory, kHugePageBytes, MADV_HUGEPAGE) == 0 &&
                       ::madvise(memory, kHugePageBytes, MADV_POPULATE_WRITE) == 0;
  ::munmap(memory, kHugePageBytes);
  note(std::chrono::steady_clock::now() - start);
  return is_made;
}

}  // namespace weir
