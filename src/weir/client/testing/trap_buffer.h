#pragma once

// A buffer for tests that need something to happen in the middle of a copy.  For tests only, not installed.

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

namespace weir::client::internal {

/// The first access to it waits until release().  One at a time.
class TrapBuffer {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;

  TrapBuffer() {
    memory_ =
        static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(memory_, 2, kBytes);
    ::mprotect(memory_, kBytes, PROT_NONE);
    is_reached_ = false;
    is_released_ = false;
    struct sigaction action {};
    action.sa_handler = [](int) {
      // A deadline of its own: a test that went wrong must not hang.
      is_reached_ = true;
      for (int i = 0; !is_released_ && i < 20'000; ++i) ::usleep(1000);
      ::mprotect(memory_, kBytes, PROT_READ | PROT_WRITE);
    };
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~TrapBuffer() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(memory_, kBytes);
  }
  TrapBuffer(const TrapBuffer&) = delete;
  TrapBuffer& operator=(const TrapBuffer&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_, kBytes}; }
  /// False if nobody has come for a long time.
  [[nodiscard]] static bool await_access() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!is_reached_ && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return is_reached_;
  }
  static void release() { is_released_ = true; }

 private:
  static inline std::byte* memory_ = nullptr;
  static inline std::atomic<bool> is_reached_ = false;
  static inline std::atomic<bool> is_released_ = false;
  struct sigaction before_ {};
};

}  // namespace weir::client::internal
