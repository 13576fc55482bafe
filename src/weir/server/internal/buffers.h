#pragma once

// Memory for bodies of messages that cannot go straight to their place.  All buffers together are bounded; who asks for
// more waits, in order.

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <weir/base/buffer_pool.h>

namespace weir::server::internal {

class Buffers;

/// Given back when dropped.
class Buffer {
 public:
  Buffer(std::weak_ptr<Buffers> home, BufferPool::Buffer memory) : home_(std::move(home)), memory_(std::move(memory)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  inline ~Buffer();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return memory_.bytes(); }

 private:
  std::weak_ptr<Buffers> home_;
  BufferPool::Buffer memory_;
};

/// \threadsafety One thread at a time, for it and its buffers.
class Buffers : public std::enable_shared_from_this<Buffers> {
 public:
  using Ready = std::function<void(std::shared_ptr<Buffer>)>;

  /// `most`: in use at any time.  `most_kept`: kept for later.
  Buffers(std::size_t most, std::size_t most_kept) : most_(most), pool_(most_kept) {}

  /// The longest buffer that can be asked for.
  [[nodiscard]] std::size_t most() const noexcept { return most_; }
  [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }

  /// Calls `ready` with a buffer of `size` bytes as soon as there is room.  \pre size <= most()
  void ask(std::size_t size, Ready ready) {
    waiting_.push_back({size, std::move(ready)});
    serve();
  }

 private:
  friend class Buffer;
  struct Waiting {
    std::size_t size;
    Ready ready;
  };

  void serve() {
    if (is_serving_) return;  // further up the stack: it goes on
    is_serving_ = true;
    while (!waiting_.empty() && (in_use_ == 0 || in_use_ + BufferPool::capacity_for(waiting_.front().size) <= most_)) {
      const Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      next.ready(take(next.size));
    }
    is_serving_ = false;
  }

  std::shared_ptr<Buffer> take(std::size_t size) {
    in_use_ += BufferPool::capacity_for(size);
    return std::make_shared<Buffer>(weak_from_this(), pool_.take(size));
  }

  void give_back(BufferPool::Buffer memory) {
    in_use_ -= BufferPool::capacity_for(memory.size());
    memory = {};
    serve();
  }

  std::size_t most_;
  BufferPool pool_;
  std::size_t in_use_ = 0;
  bool is_serving_ = false;
  std::deque<Waiting> waiting_;
};

Buffer::~Buffer() {
  if (const std::shared_ptr<Buffers> home = home_.lock()) home->give_back(std::move(memory_));
}

}  // namespace weir::server::internal
