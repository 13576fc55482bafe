#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <weir/base/aligned_memory.h>

namespace weir {

/// Memory for messages on their way, used again: memory that was never touched costs more than the copy.
///
/// What is given back is kept, the last used longest, within a limit.  Buffers may outlive the pool.
/// \threadsafety Safe from any thread.
class BufferPool {
  class Shelf;

 public:
  /// Given back when dropped.  Begins a page; see make_aligned_memory().
  class Buffer {
   public:
    Buffer() = default;  ///< None.
    Buffer(Buffer&&) noexcept = default;
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer();

    [[nodiscard]] std::byte* data() const noexcept { return memory_.get(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }  ///< As asked for.
    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_}; }
    [[nodiscard]] explicit operator bool() const noexcept { return memory_ != nullptr; }
    /// Never frees it: somebody may write to it for ever.
    void leak() noexcept { static_cast<void>(memory_.release()); }

   private:
    friend class BufferPool;
    Buffer(std::shared_ptr<Shelf> home, AlignedMemory memory, std::size_t size)
        : home_(std::move(home)), memory_(std::move(memory)), size_(size) {}
    std::shared_ptr<Shelf> home_;
    AlignedMemory memory_;
    std::size_t size_ = 0;
  };

  /// Keeps at most so many bytes that are not in use.
  explicit BufferPool(std::size_t most_kept);

  /// \pre bytes > 0.  Throws std::bad_alloc.
  Buffer take(std::size_t bytes);
  /// None if there is no memory.
  Buffer try_take(std::size_t bytes) noexcept;

  /// What a buffer of so many bytes takes: sizes are rounded up by at most a quarter, or to whole pages, so that similar
  /// ones share.
  [[nodiscard]] static std::size_t capacity_for(std::size_t bytes) noexcept;
  [[nodiscard]] std::size_t kept_bytes() const;

 private:
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace weir
