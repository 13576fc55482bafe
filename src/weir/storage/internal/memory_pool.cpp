#include <weir/storage/internal/memory_pool.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <weir/log/log.h>

namespace weir::storage::internal {
namespace {

/// A region that was just taken is about to be filled: the next one can wait.
constexpr std::chrono::milliseconds kQuietAfterTake{100};
/// So many times as long as a region took to make, none is made: where memory comes slowly, as in virtual machines that
/// give it back to their host, making it keeps a processor busy that others need.
constexpr int kRestTimes = 3;

}  // namespace

Pool::~Pool() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  news_->set();
  thread_.reset();
}

void Pool::start() {
  if (!is_on() || thread_ != nullptr || broken_) return;
  thread_ = options_.runtime.executor->start("weir-memory", [this] { run(); });
  if (thread_ != nullptr) return;
  broken_ = true;
  WEIR_LOG_WARN("memory store: no thread to fault in memory ahead");
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
  quiet_until_ = options_.runtime.clock->now() + kQuietAfterTake;
  news_->set();
  return region;
}

void Pool::keep_at_most(Offset bytes) {
  if (!is_on()) return;
  const std::lock_guard lock{mutex_};
  limit_bytes_ = bytes;
  give_back_above(bytes);
  if (wants_region()) news_->set();
}

void Pool::wait_until_idle() {
  for (;;) {
    {
      const std::lock_guard lock{mutex_};
      if (thread_ == nullptr || (!making_ && !wants_region())) return;
    }
    done_->wait();
  }
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
  // Threads that answer callers come first.  A hint only: failure does no harm.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    if (!wants_region()) {
      wait_for_news(lock, runtime::TimePoint::max());
    } else if (options_.runtime.clock->now() < quiet_until_) {
      wait_for_news(lock, quiet_until_);
    } else {
      make_region(lock);
      done_->set();
    }
  }
}

void Pool::wait_for_news(std::unique_lock<std::mutex>& lock, runtime::TimePoint deadline) {
  lock.unlock();
  (void)news_->wait_until(deadline);
  lock.lock();
}

void Pool::make_region(std::unique_lock<std::mutex>& lock) {
  making_ = true;
  const Offset bytes = wanted_bytes();
  lock.unlock();
  const auto start = options_.runtime.clock->now();
  Result<std::unique_ptr<Region>> made = Region::make_ready(bytes);
  const Status status = made.status();
  const auto end = options_.runtime.clock->now();
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
