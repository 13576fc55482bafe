#pragma once

// What one phase moves between the ranks: arrays, by plan, on the streams of an exchange.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <weir/exchange/exchange.h>
#include <weir/redist/arrays.h>
#include <weir/redist/internal/agreement.h>
#include <weir/transfer/plan.h>

namespace weir::redist::internal {

using transfer::Range;

/// What this rank sends to a peer, or gets from it, of one array.
struct PairMessage {
  int peer = 0;
  Offset bytes = 0;  ///< Positive.
  /// Sends: from the source to the message, key: target.  Receives: message to target, key: source.
  transfer::Plan plan;
  std::optional<Offset> direct;  ///< The message is this rank's memory from here on.
  bool is_direct_there = false;  ///< The same holds at the peer.
};

/// Bytes that stay: plan from source to target, key: source.
struct LocalCopy {
  transfer::Plan plan;
  Offset bytes = 0;
  Range range;  ///< Of the source.
};

struct Traffic {
  std::vector<PairMessage> sends;  ///< At most one per peer; in the order in which to start them.
  std::vector<PairMessage> receives;
  std::optional<LocalCopy> local;
};

/// The messages of several arrays to one peer are one stream.  See exchange::Exchange.
class ArrayExchange {
 public:
  ArrayExchange(Group& group, BufferPool& pool, Traffic traffic, exchange::Pace pace);
  ArrayExchange(const ArrayExchange&) = delete;
  ArrayExchange& operator=(const ArrayExchange&) = delete;

  /// Unless the settings of this rank switch it off.
  Status share_memory(const runtime::Runtime& with, std::string_view host = {});
  Status reserve(std::size_t arrays);
  Status begin(std::span<const Arrays> arrays);
  Result<bool> advance(bool may_block) { return engine_.advance(may_block); }

  [[nodiscard]] const Traffic& traffic() const { return traffic_; }
  [[nodiscard]] const exchange::Exchange& engine() const { return engine_; }

 private:
  exchange::Stream stream_of(const PairMessage& message, bool is_send) const;
  exchange::Streams streams_of() const;
  std::byte* place_of(const PairMessage& message, bool is_send, exchange::Range range) const;
  void pack(const PairMessage& message, exchange::Range range, std::byte* buffer) const;
  void unpack(const PairMessage& message, exchange::Range range, const std::byte* buffer) const;
  void copy_portion(Offset portion) const;

  Traffic traffic_;
  Offset portions_;  // of a local copy, for one array
  std::vector<Arrays> arrays_;
  bool bypass_cache_ = false;
  exchange::Exchange engine_;
};

}  // namespace weir::redist::internal
