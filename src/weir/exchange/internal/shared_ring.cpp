#include <weir/exchange/internal/shared_ring.h>

#include <new>

namespace weir::exchange::internal {

struct Ring::Control {
  alignas(kRingLine) std::atomic<std::uint64_t> filled;
  alignas(kRingLine) std::atomic<std::uint64_t> emptied;
  alignas(kRingLine) RingShape shape;
  std::atomic<std::uint64_t> is_joined;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "other processes do not know our locks");

Offset Ring::bytes_of(const RingShape& shape) {
  return static_cast<Offset>(sizeof(Control)) + ceil_div(shape.buffer_bytes(), kRingLine) * kRingLine;
}

Ring::Ring(std::byte* memory) : slots_(memory + sizeof(Control)) {}

Ring Ring::make(std::byte* memory, const RingShape& shape) {
  Ring ring(memory);
  ring.control_ = new (memory) Control{};
  ring.control_->shape = shape;
  ring.shape_ = shape;
  return ring;
}

Ring Ring::join(std::byte* memory) {
  Ring ring(memory);
  ring.control_ = std::launder(reinterpret_cast<Control*>(memory));
  ring.shape_ = ring.control_->shape;
  ring.control_->is_joined.store(1, std::memory_order_release);
  return ring;
}

const RingShape& Ring::shape() const { return shape_; }

bool Ring::is_joined() const { return control_->is_joined.load(std::memory_order_acquire) != 0; }

std::byte* Ring::slot(std::uint64_t number) const {
  return slots_ + static_cast<Offset>(number % static_cast<std::uint64_t>(shape_.slots)) * shape_.distance;
}

std::byte* Ring::slot_to_fill() {
  const auto slots = static_cast<std::uint64_t>(shape_.slots);
  if (mine_ - theirs_ == slots) theirs_ = control_->emptied.load(std::memory_order_acquire);
  return mine_ - theirs_ == slots ? nullptr : slot(mine_);
}

void Ring::fill() { control_->filled.store(++mine_, std::memory_order_release); }

const std::byte* Ring::slot_to_empty() {
  if (mine_ == theirs_) theirs_ = control_->filled.load(std::memory_order_acquire);
  return mine_ == theirs_ ? nullptr : slot(mine_);
}

void Ring::empty() { control_->emptied.store(++mine_, std::memory_order_release); }

}  // namespace weir::exchange::internal
