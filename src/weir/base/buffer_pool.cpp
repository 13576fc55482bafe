#include <weir/base/buffer_pool.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <vector>

namespace weir {

namespace {

constexpr std::size_t kMostKeptBuffers = 64;  // they are looked through one by one

}  // namespace

class BufferPool::Shelf {
 public:
  explicit Shelf(std::size_t most_kept) : most_kept_(most_kept) { kept_.reserve(kMostKeptBuffers + 1); }

  // The one used last of this capacity; null if there is none.
  AlignedMemory take(std::size_t capacity) {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(kept_.rbegin(), kept_.rend(), [&](const Kept& kept) { return kept.capacity == capacity; });
    if (found == kept_.rend()) return nullptr;
    AlignedMemory memory = std::move(found->memory);
    kept_.erase(std::next(found).base());
    kept_bytes_ -= capacity;
    return memory;
  }

  void give_back(AlignedMemory memory, std::size_t capacity) {
    if (capacity > most_kept_) return;
    std::vector<Kept> evicted;  // freed without the lock
    const std::lock_guard lock(mutex_);
    kept_.push_back({std::move(memory), capacity});
    kept_bytes_ += capacity;
    auto first_kept = kept_.begin();
    for (; kept_bytes_ > most_kept_ || kept_.end() - first_kept > static_cast<std::ptrdiff_t>(kMostKeptBuffers);
         ++first_kept) {
      kept_bytes_ -= first_kept->capacity;
    }
    if (first_kept == kept_.begin()) return;
    evicted.assign(std::make_move_iterator(kept_.begin()), std::make_move_iterator(first_kept));
    kept_.erase(kept_.begin(), first_kept);
  }

  [[nodiscard]] std::size_t kept_bytes() const {
    const std::lock_guard lock(mutex_);
    return kept_bytes_;
  }

 private:
  struct Kept {
    AlignedMemory memory;
    std::size_t capacity;
  };
  const std::size_t most_kept_;
  mutable std::mutex mutex_;
  std::vector<Kept> kept_;  // the one used last at the end
  std::size_t kept_bytes_ = 0;
};

BufferPool::Buffer& BufferPool::Buffer::operator=(Buffer&& other) noexcept {
  std::swap(home_, other.home_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

BufferPool::Buffer::~Buffer() {
  if (memory_) home_->give_back(std::move(memory_), capacity_for(size_));
}

BufferPool::BufferPool(std::size_t most_kept) : shelf_(std::make_shared<Shelf>(most_kept)) {}

BufferPool::Buffer BufferPool::take(std::size_t bytes) {
  const std::size_t capacity = capacity_for(bytes);
  AlignedMemory memory = shelf_->take(capacity);
  if (!memory) memory = make_aligned_memory(capacity);
  return {shelf_, std::move(memory), bytes};
}

BufferPool::Buffer BufferPool::try_take(std::size_t bytes) noexcept {
  try {
    return take(bytes);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

std::size_t BufferPool::capacity_for(std::size_t bytes) noexcept {
  bytes = std::max<std::size_t>(bytes, 1);
  const std::size_t unit = std::max(bytes < kHugePageBytes ? kPageBytes : kHugePageBytes, std::bit_floor(bytes) / 4);
  return (bytes + unit - 1) / unit * unit;
}

std::size_t BufferPool::kept_bytes() const { return shelf_->kept_bytes(); }

}  // namespace weir
