#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>

#include <weir/net/net.h>

namespace weir::net {

/// A call as its transport sees it.  Its end without reply() tells the caller that there will be none.
class Request::Impl {
 public:
  virtual ~Impl() = default;
  [[nodiscard]] virtual std::span<const std::byte> head() const = 0;
  [[nodiscard]] virtual std::size_t body_bytes() const = 0;
  [[nodiscard]] virtual PeerId peer() const = 0;
  [[nodiscard]] virtual const Identity& identity() const = 0;
  [[nodiscard]] virtual std::shared_ptr<const std::atomic<bool>> is_wanted() const = 0;
  virtual void receive(std::span<std::byte> into, std::function<void(Status)> done) = 0;
  virtual void reply(Bytes head, std::span<const std::byte> body, std::function<void()> sent) = 0;
};

}  // namespace weir::net
