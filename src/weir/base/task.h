#pragma once

// Coroutines that wait without a thread: a Task runs until it waits for something (a disk, a store), and goes on where
// that ends.  Single-threaded: a coroutine is resumed on the thread that it runs on.
//
//   Task<Status> save(Ring& ring) {
//     WEIR_CO_TRY(const Header header, co_await load(ring));
//     co_return co_await ring.write(header);
//   }
//   start([&] { return save(ring); }, [](Status status) { ... });
//
// A task is resumed by a plain call instead of symmetric transfer: GCC makes no tail calls under sanitizers, and loops
// over tasks that never wait would overflow the stack.

#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include <weir/base/result.h>

namespace weir {

/// Runs when it is awaited, once.
template <typename T>
class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct promise_type {
    struct Final {
      [[nodiscard]] bool await_ready() const noexcept { return false; }
      void await_suspend(Handle task) const noexcept {
        if (task.promise().parent) task.promise().parent.resume();
      }
      void await_resume() const noexcept {}
    };
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    template <typename Value = T>
    void return_value(Value&& returned) {
      value.emplace(std::forward<Value>(returned));
    }
    [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }

    std::optional<T> value;
    std::coroutine_handle<> parent;  // set once it waits for a task that did not end at once
  };

  Task(Task&& other) noexcept : task_(std::exchange(other.task_, nullptr)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (task_) task_.destroy();
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> parent) {
    task_.resume();
    if (task_.done()) return false;
    task_.promise().parent = parent;
    return true;
  }
  T await_resume() { return std::move(*task_.promise().value); }

 private:
  explicit Task(Handle task) : task_(task) {}

  Handle task_;
};

namespace internal {

struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
  };
};

template <typename Work, typename Done>
Detached run_detached(Work work, Done done) {
  auto result = co_await work();
  done(std::move(result));
}

}  // namespace internal

/// Runs the task that `work()` makes; calls `done(result)` when it has ended, maybe before this returns.  Keeps both
/// until then, so that `work` may be a lambda with captures.
template <typename Work, typename Done>
void start(Work work, Done done) {
  internal::run_detached(std::move(work), std::move(done));
}

/// Lets one task at a time pass, in the order in which they ask.
class TaskMutex {
 public:
  class [[nodiscard]] Guard {
   public:
    explicit Guard(TaskMutex& mutex) : mutex_(&mutex) {}
    Guard(Guard&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (mutex_ != nullptr) mutex_->unlock();
    }

   private:
    TaskMutex* mutex_;
  };

  struct Lock {
    TaskMutex& mutex;
    [[nodiscard]] bool await_ready() const noexcept { return !std::exchange(mutex.is_locked_, true); }
    void await_suspend(std::coroutine_handle<> task) const { mutex.waiting_.push_back(task); }
    [[nodiscard]] Guard await_resume() const noexcept { return Guard(mutex); }
  };
  Lock lock() noexcept { return Lock{*this}; }

 private:
  void unlock() {
    if (waiting_.empty()) {
      is_locked_ = false;
      return;
    }
    const std::coroutine_handle<> next = waiting_.front();
    waiting_.pop_front();
    next.resume();
  }

  bool is_locked_ = false;
  std::deque<std::coroutine_handle<>> waiting_;
};

/// WEIR_TRY and WEIR_RETURN_IF_ERROR of a coroutine.
#define WEIR_CO_TRY(declaration, expression) \
  WEIR_CO_TRY_INNER(WEIR_CONCAT(weir_result_, __LINE__), declaration, expression)
#define WEIR_CO_TRY_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                              \
  if (!temporary.is_ok()) co_return temporary.status();       \
  declaration = std::move(temporary).value()

#define WEIR_CO_RETURN_IF_ERROR(expression)          \
  do {                                               \
    ::weir::Status weir_status = (expression);       \
    if (!weir_status.is_ok()) co_return weir_status; \
  } while (false)

}  // namespace weir
