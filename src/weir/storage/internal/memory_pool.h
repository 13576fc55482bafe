#pragma once

// Memory made ahead of use, by a thread of its own: regions for subfiles to begin in.
// Touching memory for the first time costs many times a copy of it.

#include <memory>
#include <mutex>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/runtime/runtime.h>
#include <weir/share/region.h>

namespace weir::storage::internal {

using share::kChunkBytes;
using share::Region;

/// Sizes of regions, the smallest being 1.
inline constexpr Offset kRegionSizes[] = {1, 2, 4, 8, 16, 32};

struct PoolOptions {
  int regions = 0;          ///< Of each size.
  Offset region_bytes = 0;  ///< The smallest size.
  runtime::Runtime runtime = runtime::system_runtime();
};

/// \threadsafety One thread at a time; its own thread is its own affair.
class Pool {
 public:
  explicit Pool(const PoolOptions& options)
      : options_(options),
        news_(options.runtime.executor->make_event()),
        done_(options.runtime.executor->make_event()) {}
  ~Pool();  ///< Waits for what is under way.
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] bool is_on() const noexcept { return options_.regions > 0; }

  /// Starts the thread, once: a store of small subfiles needs none.
  void start();

  /// A region with every page there and zero, the largest of those that have no chunk more than `bytes` need, and are
  /// less than twice as long; null if there is none.
  std::unique_ptr<Region> take(Offset bytes);

  /// Holds no more than this from now on: gives back what is too much.
  void keep_at_most(Offset bytes);

  /// Until the thread has nothing to do.
  void wait_until_idle();

 private:
  void run();
  // These with the lock.
  [[nodiscard]] Offset wanted_bytes() const;  // of the next region to make; 0: none
  [[nodiscard]] bool wants_region() const { return wanted_bytes() > 0; }
  void give_back_above(Offset bytes);
  void make_region(std::unique_lock<std::mutex>& lock);
  void wait_for_news(std::unique_lock<std::mutex>& lock, runtime::TimePoint deadline);

  const PoolOptions options_;
  std::mutex mutex_;
  std::unique_ptr<runtime::Event> news_;  // for the thread: something to do
  std::unique_ptr<runtime::Event> done_;  // for wait_until_idle(): a region is finished
  bool stopping_ = false;
  bool broken_ = false;  // a region could not be made: no more of them
  bool making_ = false;
  Offset limit_bytes_ = 0;
  runtime::TimePoint quiet_until_{};  // no region is made before
  std::vector<std::unique_ptr<Region>> ready_;
  Offset ready_bytes_ = 0;
  std::unique_ptr<runtime::Thread> thread_;  // last: it uses the others
};

}  // namespace weir::storage::internal
