#pragma once

// For tests: time that passes only where somebody waits for it.

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <weir/runtime/runtime.h>

namespace weir::storage::internal {

class ManualTime final : public runtime::Clock, public runtime::Executor {
 public:
  [[nodiscard]] runtime::TimePoint now() const noexcept override { return now_; }
  [[nodiscard]] std::int64_t wall_ns() const noexcept override { return now_.time_since_epoch().count(); }

  std::unique_ptr<runtime::Thread> start(std::string_view, std::function<void()>) override { return nullptr; }
  std::unique_ptr<runtime::Event> make_event() override { return std::make_unique<WaitingEvent>(*this); }
  void sleep_until(runtime::TimePoint time) override { now_ = std::max(now_, time); }

  /// With this time, and all else the machine's.
  [[nodiscard]] runtime::Runtime runtime() {
    runtime::Runtime all = runtime::system_runtime();
    all.clock = this;
    all.executor = this;
    return all;
  }

 private:
  class WaitingEvent final : public runtime::Event {
   public:
    explicit WaitingEvent(ManualTime& time) : time_(time) {}
    void set() override { is_set_ = true; }
    bool wait_until(runtime::TimePoint deadline) override {
      if (!is_set_) time_.sleep_until(deadline);
      return std::exchange(is_set_, false);
    }

   private:
    ManualTime& time_;
    bool is_set_ = false;
  };

  runtime::TimePoint now_{std::chrono::hours(1)};
};

}  // namespace weir::storage::internal
