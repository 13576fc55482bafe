#pragma once

// Memory for bodies of messages that cannot go straight to their place.  All buffers together are bounded; who asks for
// more waits, in order.  Freed ones are kept for the next, since memory that was never used is slow to touch for the
// first time.

#include <bit>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <weir/base/aligned_memory.h>

namespace weir::server::internal {

class Buffers;

/// Given back when dropped.
class Buffer {
 public:
  Buffer(std::weak_ptr<Buffers> home, AlignedMemory memory, std::size_t size, std::size_t capacity)
      : home_(std::move(home)), memory_(std::move(memory)), size_(size), capacity_(capacity) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  inline ~Buffer();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_}; }

 private:
  std::weak_ptr<Buffers> home_;
  AlignedMemory memory_;
  std::size_t size_;
  std::size_t capacity_;
};

/// \threadsafety One thread at a time, for it and its buffers.
class Buffers : public std::enable_shared_from_this<Buffers> {
 public:
  using Ready = std::function<void(std::shared_ptr<Buffer>)>;

  /// `most`: in use at any time.  `most_kept`: kept for later.
  Buffers(std::size_t most, std::size_t most_kept) : most_(most), most_kept_(most_kept) {}

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
    while (!waiting_.empty() && (in_use_ == 0 || in_use_ + capacity_for(waiting_.front().size) <= most_)) {
      const Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      next.ready(take(next.size));
    }
    is_serving_ = false;
  }

  static std::size_t capacity_for(std::size_t size) { return std::bit_ceil(size < kPageBytes ? kPageBytes : size); }

  std::shared_ptr<Buffer> take(std::size_t size) {
    const std::size_t capacity = capacity_for(size);
    in_use_ += capacity;
    AlignedMemory memory;
    if (const auto found = kept_.find(capacity); found != kept_.end()) {
      memory = std::move(found->second.back());
      found->second.pop_back();
      if (found->second.empty()) kept_.erase(found);
      kept_bytes_ -= capacity;
    } else {
      memory = make_aligned_memory(capacity);
    }
    return std::make_shared<Buffer>(weak_from_this(), std::move(memory), size, capacity);
  }

  void give_back(AlignedMemory memory, std::size_t capacity) {
    in_use_ -= capacity;
    if (kept_bytes_ + capacity <= most_kept_) {
      kept_bytes_ += capacity;
      kept_[capacity].push_back(std::move(memory));
    }
    serve();
  }

  std::size_t most_;
  std::size_t most_kept_;
  std::size_t in_use_ = 0;
  std::size_t kept_bytes_ = 0;
  bool is_serving_ = false;
  std::map<std::size_t, std::vector<AlignedMemory>> kept_;  // by capacity
  std::deque<Waiting> waiting_;
};

Buffer::~Buffer() {
  if (const std::shared_ptr<Buffers> home = home_.lock()) home->give_back(std::move(memory_), capacity_);
}

}  // namespace weir::server::internal
