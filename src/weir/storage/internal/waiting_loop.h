#pragma once

// The loop of a thread that does nothing but wait for a store.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <weir/runtime/runtime.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

class WaitingLoop final : public Loop {
 public:
  explicit WaitingLoop(const runtime::Runtime& with) : clock_(*with.clock), news_(with.executor->make_event()) {}

  void post(std::function<void()> task) override {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    news_->set();
  }

  void at(runtime::TimePoint time, std::function<void()> task) override { timers_.emplace(time, std::move(task)); }

  /// Until one of the tasks has made it true.
  void run_until(const std::function<bool()>& is_done) {
    while (!is_done()) {
      if (run_tasks()) continue;
      if (!timers_.empty() && timers_.begin()->first <= clock_.now()) {
        const std::function<void()> task = std::move(timers_.begin()->second);
        timers_.erase(timers_.begin());
        task();
      } else {
        (void)news_->wait_until(timers_.empty() ? runtime::TimePoint::max() : timers_.begin()->first);
      }
    }
  }

 private:
  bool run_tasks() {
    std::vector<std::function<void()>> tasks;
    {
      const std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
    }
    for (const std::function<void()>& task : tasks) task();
    return !tasks.empty();
  }

  const runtime::Clock& clock_;
  std::unique_ptr<runtime::Event> news_;
  std::multimap<runtime::TimePoint, std::function<void()>> timers_;
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
};

}  // namespace weir::storage::internal
