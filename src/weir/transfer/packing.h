#pragma once

// How the bytes of a mapping travel from one memory to another: as one message.
//
//   element a ──pack──> message ──unpack──> element b
//
// Both ends compile the same mapping, each its own half, and agree on the order of the message without telling each
// other.  If one end is contiguous, the message has its order and that end needs no plan: its memory is the message.
// Otherwise the message is in the order of b as far as loops allow, so that unpacking writes forwards.

#include <optional>

#include <weir/transfer/plan.h>

namespace weir::transfer {

/// Which end of a mapping is meant.
enum class End { kA, kB };

struct Packing {
  Offset bytes = 0;
  /// The message is bytes [*, * + bytes) of a (of b), in order.
  std::optional<Offset> a_direct;
  std::optional<Offset> b_direct;
  /// End::kA: source a, target the message, key: target.  End::kB: source the message, target b, key: source.
  Plan plan;

  /// \pre The mapping is finite and not empty.
  static Packing create(const layout::Mapping& a_to_b, End end);
};

}  // namespace weir::transfer
