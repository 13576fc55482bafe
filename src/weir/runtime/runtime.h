#pragma once

// What components are given instead of taking it from the machine: time, random numbers, threads, settings.
//
// A program passes system_runtime(); the simulation passes virtual time, seeded random numbers, and fibers instead of
// threads.  So components never call now(), read the environment or start a thread by themselves.
//
// A thread that blocks does so by an Event or by sleep_until(), and holds no lock meanwhile.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace weir::runtime {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

/// \threadsafety Safe from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Never goes back.
  [[nodiscard]] virtual TimePoint now() const noexcept = 0;
  /// Nanoseconds since 1970, for time stamps.
  [[nodiscard]] virtual std::int64_t wall_ns() const noexcept = 0;
};

/// \threadsafety Safe from any thread.
class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;
  /// A non-zero random id, never reused.
  std::uint64_t id();
};

/// Lets one thread sleep until another has news for it.
/// \threadsafety set() from any thread; one thread waits.
class Event {
 public:
  virtual ~Event() = default;
  /// The next wait, or the one in progress, returns true.
  virtual void set() = 0;
  /// Sleeps until set(), and resets it.  \returns false if the deadline was first
  virtual bool wait_until(TimePoint deadline) = 0;
  void wait() { (void)wait_until(TimePoint::max()); }
};

/// A thread that was started; the destructor waits for its end.
class Thread {
 public:
  virtual ~Thread() = default;
};

/// Where code runs and waits.  \threadsafety Safe from any thread.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Runs `body` beside the caller.  Signals are blocked in it: they are the program's.  `name`: for debuggers, at most
  /// 15 characters.  \returns null if the system has no thread to give
  virtual std::unique_ptr<Thread> start(std::string_view name, std::function<void()> body) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual void sleep_until(TimePoint time) = 0;
};

/// Values of the variables that base/environment.h lists.  \threadsafety Safe from any thread.
class Settings {
 public:
  virtual ~Settings() = default;
  /// Empty if it is not set.
  [[nodiscard]] virtual std::string get(const char* name) const = 0;
};

/// All of them; the objects it points to outlive every component that was given it.
struct Runtime {
  const Clock* clock = nullptr;
  Random* random = nullptr;
  Executor* executor = nullptr;
  const Settings* settings = nullptr;
};

/// The machine's own.
Runtime system_runtime() noexcept;

}  // namespace weir::runtime
