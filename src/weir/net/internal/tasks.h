#pragma once

// What a listener's thread has to do besides taking in frames: tasks that were posted to it, and tasks for later.

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include <weir/net/net.h>

namespace weir::net::internal {

using Task = std::function<void()>;

/// Tasks from other threads.  \threadsafety Safe from any thread.
class Inbox {
 public:
  /// True if it was empty: the thread may be asleep and has to be woken.
  bool add(Task task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    return tasks_.size() == 1;
  }
  [[nodiscard]] std::vector<Task> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(tasks_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Task> tasks_;
};

/// Tasks by time.  One thread only.
class Timers {
 public:
  void add(Deadline time, Task task) { tasks_.emplace(time, std::move(task)); }
  /// Takes out what is due.
  [[nodiscard]] std::vector<Task> due(Deadline now) {
    std::vector<Task> due;
    for (; !tasks_.empty() && tasks_.begin()->first <= now; tasks_.erase(tasks_.begin())) {
      due.push_back(std::move(tasks_.begin()->second));
    }
    return due;
  }
  [[nodiscard]] Deadline next() const { return tasks_.empty() ? Deadline::max() : tasks_.begin()->first; }

 private:
  std::multimap<Deadline, Task> tasks_;
};

/// A listener's caller, for its handler: the listener's loop drives `driven`.
class LoopCaller final : public Caller {
 public:
  LoopCaller(Caller& driven, Task wake) : driven_(driven), wake_(std::move(wake)) {}
  std::unique_ptr<Connection> connect(const Address& address, const Key& key, Deadline deadline) override {
    return driven_.connect(address, key, deadline);
  }
  void progress() override {}
  void wait(Deadline) override {}
  void wake() override { wake_(); }

 private:
  Caller& driven_;
  Task wake_;
};

}  // namespace weir::net::internal
