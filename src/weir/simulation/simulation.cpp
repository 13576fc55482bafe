#include <weir/simulation/simulation.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include <weir/base/hash.h>
#include <weir/base/text.h>
#include <weir/simulation/internal/fiber.h>

namespace weir::simulation {

namespace internal {

class FiberThread final : public runtime::Thread {
 public:
  FiberThread(Simulation& simulation, std::shared_ptr<Fiber> fiber)
      : simulation_(simulation), fiber_(std::move(fiber)) {}
  FiberThread(const FiberThread&) = delete;
  FiberThread& operator=(const FiberThread&) = delete;
  ~FiberThread() override {
    while (!fiber_->has_ended()) {
      Fiber* joining = simulation_.running_;
      fiber_->on_end = [this, joining] { simulation_.wake(*joining); };
      simulation_.park();
    }
  }

 private:
  Simulation& simulation_;
  std::shared_ptr<Fiber> fiber_;
};

class FiberEvent final : public runtime::Event {
 public:
  explicit FiberEvent(Simulation& simulation) : state_(std::make_shared<State>(State{simulation})) {}

  void set() override {
    state_->is_set = true;
    state_->wake();
  }

  bool wait_until(TimePoint deadline) override {
    State& state = *state_;
    if (!state.is_set && deadline != TimePoint::max()) {
      // A timer may outlive the event.
      state.simulation.at(deadline, [weak = std::weak_ptr(state_)] {
        if (const auto alive = weak.lock()) alive->wake();
      });
    }
    while (!state.is_set && state.simulation.now() < deadline) {
      state.waiting = state.simulation.running_;
      state.simulation.park();
      state.waiting = nullptr;
    }
    return std::exchange(state.is_set, false);
  }

 private:
  struct State {
    Simulation& simulation;
    bool is_set = false;
    Fiber* waiting = nullptr;

    void wake() const {
      if (waiting != nullptr) simulation.wake(*waiting);
    }
  };
  std::shared_ptr<State> state_;
};

}  // namespace internal

Simulation::Simulation(std::uint64_t seed) : generator_(seed) {}

Simulation::~Simulation() = default;

void Simulation::spawn(std::string_view name, std::function<void()> body) { (void)add_fiber(name, std::move(body)); }

std::shared_ptr<internal::Fiber> Simulation::add_fiber(std::string_view name, std::function<void()> body) {
  auto fiber = std::make_shared<Fiber>(std::string(name), std::move(body));
  fibers_.push_back(fiber);
  wake(*fiber);
  return fiber;
}

void Simulation::at(TimePoint time, std::function<void()> task) {
  timers_.emplace(std::max(time, now_), std::move(task));
}

Status Simulation::run(Duration limit) {
  const TimePoint end = now_ + limit;
  while (!fibers_.empty()) {
    if (!ready_.empty()) {
      run_fiber(static_cast<std::size_t>(random(ready_.size())));
    } else if (timers_.empty()) {
      return {ErrorCode::kTimedOut, concat("blocked for ever: ", blocked_fibers())};
    } else if (timers_.begin()->first > end) {
      return {ErrorCode::kTimedOut, concat("still running after the limit of virtual time: ", blocked_fibers())};
    } else {
      run_timers();
    }
  }
  timers_.clear();
  return Status::ok();
}

void Simulation::run_fiber(std::size_t ready) {
  Fiber* fiber = ready_[ready];
  ready_[ready] = ready_.back();
  ready_.pop_back();
  fiber->is_ready = false;
  running_ = fiber;
  fiber->enter();
  running_ = nullptr;
  if (!fiber->has_ended()) return;
  const auto found = std::find_if(fibers_.begin(), fibers_.end(), [&](const auto& one) { return one.get() == fiber; });
  const std::shared_ptr<Fiber> ended = std::move(*found);
  fibers_.erase(found);
  if (ended->on_end) ended->on_end();
}

void Simulation::run_timers() {
  now_ = timers_.begin()->first;
  std::function<void()> task = std::move(timers_.begin()->second);
  timers_.erase(timers_.begin());
  task();
}

void Simulation::park() {
  assert(running_ != nullptr && "only fibers block");
  Fiber* self = running_;
  self->leave();
  running_ = self;
}

void Simulation::wake(Fiber& fiber) {
  if (std::exchange(fiber.is_ready, true)) return;
  ready_.push_back(&fiber);
}

std::string Simulation::blocked_fibers() const {
  std::string names;
  for (const auto& fiber : fibers_) names += concat(names.empty() ? "" : ", ", fiber->name());
  return names;
}

Duration Simulation::random_between(Duration least, Duration most) {
  return least + Duration(static_cast<Duration::rep>(random(static_cast<std::uint64_t>((most - least).count()) + 1)));
}

// ---------------------------------------------------------------- what a runtime has

std::int64_t Simulation::wall_ns() const noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now_.time_since_epoch()).count();
}

std::unique_ptr<runtime::Thread> Simulation::start(std::string_view name, std::function<void()> body) {
  return std::make_unique<internal::FiberThread>(*this, add_fiber(name, std::move(body)));
}

std::unique_ptr<runtime::Event> Simulation::make_event() { return std::make_unique<internal::FiberEvent>(*this); }

void Simulation::sleep_until(TimePoint time) {
  internal::FiberEvent never(*this);
  (void)never.wait_until(time);
}

std::string Simulation::get(const char* name) const {
  (void)name;
  return {};  // a run depends on nothing but its seed
}

// ---------------------------------------------------------------- trace

void Simulation::note(std::string_view what) {
  trace_hash_ = hash_of(what, trace_hash_ + static_cast<std::uint64_t>(now_.time_since_epoch().count()));
  if (kept_lines_ == 0) return;
  if (lines_.size() >= 2 * kept_lines_)
    lines_.erase(lines_.begin(), lines_.end() - static_cast<std::ptrdiff_t>(kept_lines_));
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now_.time_since_epoch()).count();
  lines_.push_back(concat(us, " us  ", what));
}

std::string Simulation::trace() const {
  std::string text;
  for (const std::string& line : lines_) text += concat(line, "\n");
  return text;
}

}  // namespace weir::simulation
