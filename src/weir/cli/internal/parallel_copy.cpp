#include <weir/cli/internal/parallel_copy.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <weir/cli/internal/interruption.h>

namespace weir::cli::internal {

namespace {

class Copy {
 public:
  Copy(Offset from, Offset to, const CopyOptions& options, const CopyChunk& copy)
      : next_(from), frontier_(from), to_(to), options_(options), copy_(copy) {}

  Status run() {
    const Offset chunks = (to_ - next_ + options_.chunk_bytes - 1) / options_.chunk_bytes;
    std::vector<std::jthread> helpers;
    for (Offset i = 1; i < std::min<Offset>(options_.jobs, chunks); ++i) helpers.emplace_back([this] { work(); });
    work();
    helpers.clear();
    return status_;
  }

 private:
  void work() {
    std::vector<std::byte> buffer;
    for (;;) {
      const Offset at = take();
      if (at < 0) return;
      const auto length = static_cast<std::size_t>(std::min(options_.chunk_bytes, to_ - at));
      buffer.resize(std::max(buffer.size(), length));
      const Status status = copy_(at, std::span(buffer).first(length));
      finish(at, static_cast<Offset>(length), status);
    }
  }

  // The next chunk, or -1 if there is none.
  Offset take() {
    std::unique_lock lock(mutex_);
    const auto may_go = [this] {
      return !status_.is_ok() || next_ >= to_ || next_ < frontier_ + options_.window_bytes();
    };
    changed_.wait(lock, may_go);
    if (InterruptionGuard::is_interrupted() && status_.is_ok()) status_ = Status(ErrorCode::kIoError, kInterrupted);
    if (!status_.is_ok() || next_ >= to_) return -1;
    const Offset at = next_;
    next_ += options_.chunk_bytes;
    open_.insert(at);
    return at;
  }

  void finish(Offset at, Offset length, const Status& status) {
    const std::lock_guard lock(mutex_);
    if (status_.is_ok() && !status.is_ok()) status_ = status;
    open_.erase(at);
    frontier_ = open_.empty() ? std::min(next_, to_) : *open_.begin();
    done_ += length;
    if (options_.progress) options_.progress(done_);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Offset> open_;  // chunks under way
  Offset next_;
  Offset frontier_;
  Offset done_ = 0;
  const Offset to_;
  Status status_;
  const CopyOptions& options_;
  const CopyChunk& copy_;
};

}  // namespace

Status copy_in_parallel(Offset from, Offset to, const CopyOptions& options, const CopyChunk& copy) {
  const InterruptionGuard guard;
  return Copy(from, to, options, copy).run();
}

}  // namespace weir::cli::internal
