#pragma once

// The server's end of lifeline.h: a word in the list of robust futexes of a thread.  That list is made for locks whose
// holder dies: when the thread ends, the kernel takes its number out of every word in the list.
//
// The word is alone in an anonymous file, which clients get for reading only.

#include <linux/futex.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include <weir/base/descriptor.h>
#include <weir/base/result.h>

namespace weir::share {

class Life {
 public:
  /// \error kIoError
  static Result<std::unique_ptr<Life>> create();
  ~Life();
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  /// For clients; can only be read.
  [[nodiscard]] int descriptor() const noexcept { return shown_.get(); }

  /// From now on it lasts as long as the calling thread does, or until end().  The thread must use no robust mutexes
  /// besides.
  /// \error kIoError
  Status begin();
  /// By the same thread, which ends next.
  void end();

 private:
  Life() = default;
  Descriptor shown_;
  std::atomic<std::uint32_t>* word_ = nullptr;
  robust_list entry_{};
  robust_list_head list_{};
};

}  // namespace weir::share
