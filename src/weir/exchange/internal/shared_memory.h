#pragma once

// Memory that processes of one host share under a name.  What is written by one is seen by all that have it mapped; the
// name is needed only until they have.

#include <cstddef>
#include <string>

#include <weir/base/checked.h>
#include <weir/base/result.h>

namespace weir::exchange::internal {

class SharedMemory {
 public:
  SharedMemory() = default;
  /// Makes it, all zero.  All of it is there when this returns: touching it cannot fail later.
  /// \error kIoError if the name exists, there is too little room or the system has no shared memory.
  static Result<SharedMemory> create(const std::string& name, Offset bytes);
  /// Maps what another process has made.  \error kIoError if there is nothing of that name on this host.
  static Result<SharedMemory> open(const std::string& name);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  /// Unmaps, and removes the name if it was made here and still exists.
  ~SharedMemory();

  /// Nobody can open it any more; those who have keep it.
  void remove_name() noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] Offset bytes() const noexcept { return bytes_; }

 private:
  std::string name_;  // empty: not ours to remove
  std::byte* data_ = nullptr;
  Offset bytes_ = 0;
};

}  // namespace weir::exchange::internal
