#include <weir/runtime/runtime.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <pthread.h>

#include <weir/base/environment.h>
#include <weir/base/random_id.h>

namespace weir::runtime {

namespace {

class SystemClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] std::int64_t wall_ns() const noexcept override {
    const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
  }
};

class SystemRandom final : public Random {
 public:
  std::uint64_t next() override { return random_id(); }
};

class SystemEvent final : public Event {
 public:
  void set() override {
    const std::lock_guard lock(mutex_);
    is_set_ = true;
    changed_.notify_one();  // locked: the thread that waits may end the event as soon as it sees it set
  }

  bool wait_until(TimePoint deadline) override {
    std::unique_lock lock(mutex_);
    const auto has_news = [this] { return is_set_; };
    if (deadline == TimePoint::max()) {
      changed_.wait(lock, has_news);  // wait_until() would overflow
    } else {
      changed_.wait_until(lock, deadline, has_news);
    }
    return std::exchange(is_set_, false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

class SystemThread final : public Thread {
 public:
  explicit SystemThread(std::thread thread) : thread_(std::move(thread)) {}
  SystemThread(const SystemThread&) = delete;
  SystemThread& operator=(const SystemThread&) = delete;
  ~SystemThread() override { thread_.join(); }

 private:
  std::thread thread_;
};

class SystemExecutor final : public Executor {
 public:
  std::unique_ptr<Thread> start(std::string_view name, std::function<void()> body) override {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::unique_ptr<Thread> started;
    try {
      std::thread thread(std::move(body));
      ::pthread_setname_np(thread.native_handle(), std::string(name.substr(0, 15)).c_str());
      started = std::make_unique<SystemThread>(std::move(thread));
    } catch (const std::system_error&) {
      started = nullptr;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<SystemEvent>(); }
  void sleep_until(TimePoint time) override { std::this_thread::sleep_until(time); }
};

class SystemSettings final : public Settings {
 public:
  [[nodiscard]] std::string get(const char* name) const override { return environment(name); }
};

}  // namespace

std::uint64_t Random::id() {
  for (;;) {
    if (const std::uint64_t number = next(); number != 0) return number;
  }
}

Runtime system_runtime() noexcept {
  // Never destroyed: sessions in static storage use them until the program has ended.
  static const Runtime runtime{new SystemClock, new SystemRandom, new SystemExecutor, new SystemSettings};
  return runtime;
}

}  // namespace weir::runtime
