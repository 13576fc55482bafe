#include <weir/storage/internal/memory_pool.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include <weir/log/log.h>

namespace weir::storage::internal {
namespace {

/// Whoever takes a region is about to fill it: the next one can wait.
constexpr std::chrono::milliseconds kQuiet{100};
/// So many times as long as a region took to make, none is made: where memory comes slowly, as in virtual machines that
/// give it back to their host, making it keeps a processor busy that others need.
constexpr int kRestTimes = 3;

}  // namespace

Pool::~Pool() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
    work_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Pool::start() {
  if (!is_on() || thread_.joinable() || broken_) return;
  try {
    thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error& error) {
    broken_ = true;
    WEIR_LOG_WARN("memory store: no thread to fault in memory ahead: {}", error.what());
  }
}

std::unique_ptr<Region> Pool::take(Offset bytes) {
  const std::lock_guard lock{mutex_};
  const Offset most = ceil_div(bytes, kChunkBytes) * kChunkBytes;
  auto best = ready_.end();
  for (auto it = ready_.begin(); it != ready_.end(); ++it) {
    const Offset size = (*it)->mapped_bytes();
    if (size <= most && size < 2 * bytes && (best == ready_.end() || size > (*best)->mapped_bytes())) best = it;
  }
  if (best == ready_.end()) return nullptr;
  std::unique_ptr<Region> region = std::move(*best);
  ready_.erase(best);
  ready_bytes_ -= region->mapped_bytes();
  quiet_until_ = std::chrono::steady_clock::now() + kQuiet;
  work_.notify_all();
  return region;
}

void Pool::keep_at_most(Offset bytes) {
  if (!is_on()) return;
  const std::lock_guard lock{mutex_};
  limit_bytes_ = bytes;
  give_back_above(bytes);
  if (wants_region()) work_.notify_all();
}

void Pool::wait_until_idle() {
  std::unique_lock lock{mutex_};
  done_.wait(lock, [&] { return !thread_.joinable() || (!making_ && !wants_region()); });
}

Offset Pool::wanted_bytes() const {
  if (broken_) return 0;
  Offset wanted = 0;
  std::ptrdiff_t fewest = options_.regions;
  for (const Offset size : kRegionSizes) {
    const Offset bytes = size * options_.region_bytes;
    const auto ready = std::count_if(ready_.begin(), ready_.end(),
                                     [bytes](const auto& region) { return region->mapped_bytes() == bytes; });
    if (ready >= fewest || ready_bytes_ + bytes > limit_bytes_) continue;
    fewest = ready;
    wanted = bytes;
  }
  return wanted;
}

void Pool::give_back_above(Offset bytes) {
  while (ready_bytes_ > bytes) {
    ready_bytes_ -= ready_.back()->mapped_bytes();
    ready_.pop_back();
  }
}

void Pool::run() {
  // Whoever waits for an answer comes first.  Advice: works without.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);
  std::unique_lock lock{mutex_};
  while (true) {
    work_.wait(lock, [&] { return stopping_ || wants_region(); });
    if (stopping_) return;
    if (std::chrono::steady_clock::now() < quiet_until_) {
      work_.wait_until(lock, quiet_until_, [&] { return stopping_; });
      continue;
    }
    make_region(lock);
    done_.notify_all();
  }
}

void Pool::make_region(std::unique_lock<std::mutex>& lock) {
  making_ = true;
  const Offset bytes = wanted_bytes();
  lock.unlock();
  const auto start = std::chrono::steady_clock::now();
  Result<std::unique_ptr<Region>> made = Region::make_ready(bytes);
  const Status status = made.status();
  const auto end = std::chrono::steady_clock::now();
  lock.lock();
  making_ = false;
  quiet_until_ = std::max(quiet_until_, end + kRestTimes * (end - start));
  if (!status.is_ok() || (*made)->descriptor() < 0) {
    broken_ = true;
    WEIR_LOG_WARN("memory store: no memory is faulted in ahead any more: {}",
                  status.is_ok() ? "no descriptor left" : status.message());
  } else if (ready_bytes_ + bytes <= limit_bytes_) {  // which may have changed meanwhile
    ready_.push_back(std::move(*made));
    ready_bytes_ += bytes;
  }
}

}  // namespace weir::storage::internal
