#include <weir/client/internal/progress_thread.h>

#include <csignal>
#include <system_error>

#include <weir/log/log.h>

namespace weir::client::internal {

namespace {

// So long nobody has looked before it does: programs that test or wait do without it.
constexpr std::chrono::milliseconds kPause{20};

}  // namespace

void ProgressThread::wake() {
  if (is_wanted_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  is_wanted_ = true;
  if (!is_made_) make_thread();
  changed_.notify_one();
}

// Signals are the program's: its own threads get them.
void ProgressThread::make_thread() {
  is_made_ = true;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    WEIR_LOG_WARN("client: no thread can be made ({}); accesses under way get on only while the program waits for them",
                  error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ProgressThread::stop() {
  std::jthread ending;
  {
    const std::lock_guard lock(mutex_);
    is_made_ = true;
    ending = std::move(thread_);
  }
}

void ProgressThread::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return is_wanted_.load(); })) {
    changed_.wait_for(lock, stop, kPause, [] { return false; });
    if (stop.stop_requested()) return;
    // First: what comes while it looks is not forgotten.
    is_wanted_ = false;
    lock.unlock();
    if (look_(stop)) is_wanted_ = true;
    lock.lock();
  }
}

}  // namespace weir::client::internal
