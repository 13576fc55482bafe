#include <weir/simulation/internal/fiber.h>

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include <sys/mman.h>

// Clang says it another way than GCC.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <dlfcn.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace weir::simulation::internal {

namespace {

constexpr std::size_t kStackBytes = std::size_t{1} << 20;  // taken as it is used
constexpr std::size_t kGuardBytes = 4096;

/// Stacks that are used again: the pages of a new one have to be made first.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool() {
    for (std::byte* stack : kept_) ::munmap(stack - kGuardBytes, kStackBytes + kGuardBytes);
  }

  std::byte* take() {
    if (!kept_.empty()) {
      std::byte* stack = kept_.back();
      kept_.pop_back();
      return stack;
    }
    void* memory = ::mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) std::abort();  // a test cannot go on without
    ::mprotect(memory, kGuardBytes, PROT_NONE);
    return static_cast<std::byte*>(memory) + kGuardBytes;
  }
  void give_back(std::byte* stack) { kept_.push_back(stack); }

 private:
  std::vector<std::byte*> kept_;
};

StackPool& stacks() {
  static thread_local StackPool pool;
  return pool;
}

// The sanitizer's own version of swapcontext() clears the shadow of the whole stack, a megabyte each time; it knows what
// it needs by start_switch() and finish_switch().
void switch_context(ucontext_t* from, const ucontext_t* to) {
#if defined(__SANITIZE_ADDRESS__)
  using Swap = int (*)(ucontext_t*, const ucontext_t*);
  static const auto swap = reinterpret_cast<Swap>(::dlsym(::dlopen("libc.so.6", RTLD_LAZY), "swapcontext"));
  swap(from, to);
#else
  ::swapcontext(from, to);
#endif
}

void start_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] std::size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, bottom, size);
#endif
}

void finish_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** bottom,
                   [[maybe_unused]] std::size_t* size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
#endif
}

}  // namespace

Fiber::Fiber(std::string name, std::function<void()> body)
    : name_(std::move(name)), body_(std::move(body)), stack_(stacks().take()) {
  ::getcontext(&own_);
  own_.uc_stack.ss_sp = stack_;
  own_.uc_stack.ss_size = kStackBytes;
  own_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);  // makecontext() passes nothing but ints
  ::makecontext(&own_, reinterpret_cast<void (*)()>(&Fiber::run), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
}

Fiber::~Fiber() {
  if (has_ended_) {
    stacks().give_back(stack_);
    return;
  }
  // The test has failed, or wanted just that: the stack stays as it is, and with it what it points to.
#if defined(__SANITIZE_ADDRESS__)
  __lsan_register_root_region(stack_, kStackBytes);
#endif
}

void Fiber::enter() {
  start_switch(&outside_fake_stack_, stack_, kStackBytes);
  switch_context(&outside_, &own_);
  finish_switch(outside_fake_stack_, nullptr, nullptr);
}

void Fiber::leave() {
  start_switch(has_ended_ ? nullptr : &own_fake_stack_, outside_bottom_, outside_size_);
  switch_context(&own_, &outside_);
  finish_switch(own_fake_stack_, &outside_bottom_, &outside_size_);
}

void Fiber::run(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>((static_cast<std::uintptr_t>(high) << 32) | low);
  finish_switch(nullptr, &self->outside_bottom_, &self->outside_size_);
  self->body_();
  self->body_ = nullptr;
  self->has_ended_ = true;
  self->leave();
}

}  // namespace weir::simulation::internal
