#include <weir/cli/internal/parallel_copy.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace weir::cli::internal {

namespace {

// The only thing that a signal handler may do.
std::atomic<bool> is_interrupted{false};
void note_signal(int) { is_interrupted.store(true); }

/// Notes SIGINT and SIGTERM while it lives.
class SignalGuard {
 public:
  SignalGuard() {
    is_interrupted.store(false);
    struct sigaction action {};
    action.sa_handler = note_signal;
    ::sigaction(SIGINT, &action, &old_int_);
    ::sigaction(SIGTERM, &action, &old_term_);
  }
  ~SignalGuard() {
    ::sigaction(SIGINT, &old_int_, nullptr);
    ::sigaction(SIGTERM, &old_term_, nullptr);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

class Copy {
 public:
  Copy(Offset from, Offset to, const CopyOptions& options, const CopyChunk& copy)
      : next_(from), frontier_(from), to_(to), options_(options), copy_(copy) {}

  Status run() {
    std::vector<std::jthread> threads;
    for (int i = 0; i < options_.jobs; ++i) threads.emplace_back([this] { work(); });
    threads.clear();
    return status_;
  }

 private:
  void work() {
    std::vector<std::byte> buffer(static_cast<std::size_t>(options_.chunk_bytes));
    for (;;) {
      const Offset at = take();
      if (at < 0) return;
      const auto length = static_cast<std::size_t>(std::min(options_.chunk_bytes, to_ - at));
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
    if (is_interrupted.load() && status_.is_ok()) status_ = Status(ErrorCode::kIoError, kInterrupted);
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
  const SignalGuard guard;
  return Copy(from, to, options, copy).run();
}

}  // namespace weir::cli::internal
