#pragma once

// The thread that works on a store whose calls wait for a disk, one call after the other, in the order in which they
// were asked for.  Meanwhile the event loop receives what is to be written next, and sends what was read last.

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace weir::server::internal {

/// \threadsafety Safe from any thread but its own.
class StoreThread {
 public:
  using Task = std::function<void()>;

  StoreThread() : thread_([this] { work(); }) {}
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;
  /// What was asked for is done before.
  ~StoreThread() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void post(Task task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  /// Nothing is under way.  Stays so until somebody asks for something.
  [[nodiscard]] bool is_idle() {
    const std::lock_guard lock(mutex_);
    return tasks_.empty() && !is_working_;
  }

  /// Waits for what `call` returns, and for all that was asked for before.
  template <typename Work>
  auto run(Work call) -> decltype(call()) {
    std::promise<decltype(call())> result;
    post([&] { result.set_value(call()); });
    return result.get_future().get();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      is_working_ = true;
      lock.unlock();
      task();
      task = nullptr;  // what it holds ends without the lock, too
      lock.lock();
      is_working_ = false;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool is_working_ = false;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace weir::server::internal
