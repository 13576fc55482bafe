#pragma once

// Whether a server is still there, for clients that use its memory without asking it: one word that they map, which the
// kernel itself marks when the server ends, however it ends.  Looking costs one load.

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include <weir/base/result.h>

namespace weir::share {

/// The client's end.  \threadsafety Safe from any thread.
class Lifeline {
 public:
  /// Does not keep the descriptor.  \error kIoError, kCorrupt
  static Result<std::shared_ptr<Lifeline>> map(int descriptor);
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// Once false, always false.
  [[nodiscard]] bool is_alive() const noexcept;
  /// Whether the descriptor is of this one.
  [[nodiscard]] bool is_of(int descriptor) const noexcept;

 private:
  Lifeline(const std::atomic<std::uint32_t>* word, dev_t device, ino_t file);
  const std::atomic<std::uint32_t>* word_;
  dev_t device_;
  ino_t file_;
};

}  // namespace weir::share
