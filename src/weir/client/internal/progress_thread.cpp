#include <weir/client/internal/progress_thread.h>

#include <utility>

#include <weir/log/log.h>

namespace weir::client::internal {

namespace {

constexpr std::chrono::milliseconds kPause{20};

}  // namespace

bool ProgressThread::wake(When when) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_known = is_wanted_ && (is_urgent_ || when == When::kLater);
    is_wanted_ = true;
    is_urgent_ = is_urgent_ || when == When::kNow;
    if (!std::exchange(is_made_, true)) {
      thread_ = runtime_.executor->start("weir-progress", [this] { run(); });
      if (thread_ == nullptr) {
        WEIR_LOG_WARN("client: no thread can be started; accesses in flight advance only while the program waits");
      }
    }
    if (is_known || thread_ == nullptr) return thread_ != nullptr;
  }
  changed_->set();
  return true;
}

void ProgressThread::stop() {
  std::unique_ptr<runtime::Thread> ending;
  {
    const std::lock_guard lock(mutex_);
    is_made_ = true;
    is_stopping_ = true;
    ending = std::move(thread_);
  }
  changed_->set();
}

void ProgressThread::run() {
  for (;;) {
    bool is_wanted = false;
    bool is_urgent = false;
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return;
      is_wanted = is_wanted_;
      is_urgent = is_urgent_;
    }
    if (!is_wanted) {
      changed_->wait();
      continue;
    }
    if (!is_urgent && changed_->wait_until(runtime_.clock->now() + kPause)) continue;
    {
      // First: what comes while it looks is not forgotten.
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return;
      is_wanted_ = false;
      is_urgent_ = false;
    }
    if (look_()) {
      const std::lock_guard lock(mutex_);
      is_wanted_ = true;
    }
  }
}

}  // namespace weir::client::internal
