#pragma once

// Virtual time, one seed, one thread: what runs here runs the same way again with the same seed.
//
//   Simulation simulation(seed);
//   simulation.spawn("client", [&] { ... code that is given simulation.runtime() ... });
//   simulation.run();                        // returns when every fiber has ended
//
// Threads are fibers.  A fiber runs until it blocks (Event, sleep_until, end of a Thread); then another one that is
// ready runs, chosen at random.  When none is ready, time jumps to the next timer.  So a run takes no longer than its
// computations, and every order of events that the seed leads to can be repeated.
//
// Fibers must not hold a lock while they block, and must not block in any other way: the one thread would hang.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <weir/base/result.h>
#include <weir/runtime/runtime.h>

namespace weir::simulation {

namespace internal {
class Fiber;
class FiberThread;
class FiberEvent;
}  // namespace internal

using runtime::Duration;
using runtime::TimePoint;

/// \threadsafety One thread.
class Simulation final : runtime::Clock, runtime::Random, runtime::Executor, runtime::Settings {
 public:
  explicit Simulation(std::uint64_t seed);
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;
  ~Simulation() override;

  [[nodiscard]] runtime::Runtime runtime() { return {this, this, this, this}; }

  /// A fiber of its own, which run() waits for.
  void spawn(std::string_view name, std::function<void()> body);
  /// Calls `task`, which does not block, at `time`, or as soon as possible if that is past.
  void at(TimePoint time, std::function<void()> task);
  void after(Duration delay, std::function<void()> task) { at(now_ + delay, std::move(task)); }

  /// Runs until every fiber has ended.  Timers that are left then are dropped.
  /// \error kTimedOut if fibers are blocked and nothing is left that could wake them, or after `limit` of virtual time:
  /// names them.  The simulation is of no use then.
  Status run(Duration limit = std::chrono::hours(24));

  [[nodiscard]] TimePoint now() const noexcept override { return now_; }
  /// Uniformly from [0, below).  \pre below > 0
  std::uint64_t random(std::uint64_t below) { return generator_() % below; }
  /// One of `in` times.
  bool one_in(std::uint64_t in) { return random(in) == 0; }
  Duration random_between(Duration least, Duration most);

  /// What happened, for the hash that shows whether two runs were the same.
  void note(std::string_view what);
  [[nodiscard]] std::uint64_t trace_hash() const noexcept { return trace_hash_; }
  /// Keeps the last lines given to note(), with their times.
  void keep_trace(std::size_t lines) { kept_lines_ = lines; }
  [[nodiscard]] std::string trace() const;

 private:
  friend class internal::FiberThread;
  friend class internal::FiberEvent;
  using Fiber = internal::Fiber;

  [[nodiscard]] std::int64_t wall_ns() const noexcept override;
  std::uint64_t next() override { return generator_(); }
  std::unique_ptr<runtime::Thread> start(std::string_view name, std::function<void()> body) override;
  std::unique_ptr<runtime::Event> make_event() override;
  void sleep_until(TimePoint time) override;
  [[nodiscard]] std::string get(const char* name) const override;

  std::shared_ptr<Fiber> add_fiber(std::string_view name, std::function<void()> body);
  /// Blocks the fiber that runs until wake().
  void park();
  void wake(Fiber& fiber);
  void run_fiber(std::size_t ready);
  void run_timers();
  [[nodiscard]] std::string blocked_fibers() const;

  TimePoint now_{std::chrono::seconds(1)};
  std::mt19937_64 generator_;
  std::vector<std::shared_ptr<Fiber>> fibers_;  // that have not ended
  std::vector<Fiber*> ready_;
  Fiber* running_ = nullptr;
  std::multimap<TimePoint, std::function<void()>> timers_;
  std::uint64_t trace_hash_ = 0;
  std::size_t kept_lines_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace weir::simulation
