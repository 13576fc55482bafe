#pragma once

// Memory for bodies of messages that cannot go straight to their place.  All buffers together are bounded, and no peer has
// more than half of them; those who ask for more wait, and get their buffers in turns (fair_share.h).

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include <weir/base/buffer_pool.h>
#include <weir/server/internal/fair_share.h>

namespace weir::server::internal {

class Buffers;

/// Given back when dropped.
class Buffer {
 public:
  Buffer(std::weak_ptr<Buffers> home, net::PeerId peer, BufferPool::Buffer memory)
      : home_(std::move(home)), peer_(peer), memory_(std::move(memory)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  inline ~Buffer();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return memory_.bytes(); }

 private:
  std::weak_ptr<Buffers> home_;
  net::PeerId peer_;
  BufferPool::Buffer memory_;
};

/// \threadsafety One thread at a time, for it and its buffers.
class Buffers : public std::enable_shared_from_this<Buffers> {
 public:
  using Ready = std::function<void(std::shared_ptr<Buffer>)>;

  /// `most`: in use at any time.  `most_kept`: kept for later.
  Buffers(std::size_t most, std::size_t most_kept)
      : most_(most), pool_(most_kept), share_({.most = most, .most_of_one = most / 2, .quantum = kQuantum}) {}

  /// The longest buffer that can be asked for.
  [[nodiscard]] std::size_t most() const noexcept { return most_; }
  [[nodiscard]] std::size_t in_use() const noexcept { return share_.in_use(); }

  /// Calls `ready` with a buffer of `size` bytes as soon as there is room.  \pre size <= most()
  void ask(net::PeerId peer, std::size_t size, Ready ready) {
    share_.ask(peer, BufferPool::capacity_for(size), [this, peer, size, ready = std::move(ready)] {
      ready(std::make_shared<Buffer>(weak_from_this(), peer, pool_.take(size)));
    });
  }

 private:
  friend class Buffer;
  static constexpr std::size_t kQuantum = std::size_t{1} << 20;

  void give_back(net::PeerId peer, BufferPool::Buffer memory) {
    const std::size_t cost = BufferPool::capacity_for(memory.size());
    memory = {};
    share_.give_back(peer, cost);
  }

  std::size_t most_;
  BufferPool pool_;
  FairShare share_;
};

Buffer::~Buffer() {
  if (const std::shared_ptr<Buffers> home = home_.lock()) home->give_back(peer_, std::move(memory_));
}

}  // namespace weir::server::internal
