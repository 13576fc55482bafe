#pragma once

// A function with a stack of its own, which runs until it gives the processor back, and goes on from there later.

#include <functional>
#include <string>

#include <ucontext.h>

namespace weir::simulation::internal {

class Fiber {
 public:
  Fiber(std::string name, std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  /// One that has not ended is forgotten: what is on its stack is not destroyed.
  ~Fiber();

  /// Runs it until it ends or calls leave().  \pre not has_ended(), and not called by a fiber
  void enter();
  /// Called by the fiber itself: enter() returns.
  void leave();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool has_ended() const { return has_ended_; }

  // ---- of the scheduler
  bool is_ready = false;
  std::function<void()> on_end;

 private:
  static void run(unsigned high, unsigned low);

  std::string name_;
  std::function<void()> body_;
  std::byte* stack_ = nullptr;
  ucontext_t own_{};
  ucontext_t outside_{};
  bool has_ended_ = false;
  // What the address sanitizer keeps of each stack:
  void* own_fake_stack_ = nullptr;
  void* outside_fake_stack_ = nullptr;
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
};

}  // namespace weir::simulation::internal
