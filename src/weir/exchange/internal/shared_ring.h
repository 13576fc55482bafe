#pragma once

// A ring of slots in shared memory: one process fills them in turn, another empties them.
//
//   line 0   filled     slots filled so far; written by the sender
//   line 1   emptied    slots emptied so far; written by the receiver
//   line 2   shape      written by the sender before anybody looks
//   then     slot 0, slot 1, ...
//
// The counts grow for ever: an exchange begins where the last one ended, and no end waits for the other to finish.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <weir/base/checked.h>

namespace weir::exchange::internal {

struct RingShape {
  Offset slot_bytes = 0;  ///< What a slot holds.
  Offset distance = 0;    ///< Between slots; at least slot_bytes.
  Offset slots = 0;

  [[nodiscard]] Offset buffer_bytes() const { return distance * slots; }
};

/// One end of a ring.
class Ring {
 public:
  Ring() = default;
  /// Bytes of memory that a ring takes: whole lines, a multiple of kRingLine.
  static Offset bytes_of(const RingShape& shape);
  /// The sender's end.  \pre `memory` is zero and starts a line.
  static Ring make(std::byte* memory, const RingShape& shape);
  /// The receiver's end of a ring made by another process.
  static Ring join(std::byte* memory);

  [[nodiscard]] const RingShape& shape() const;
  /// At the sender: true if there is a receiver.
  [[nodiscard]] bool is_joined() const;

  /// The slot to fill next; null if all are full.
  [[nodiscard]] std::byte* slot_to_fill();
  void fill();
  /// The slot to empty next; null if all are empty.
  [[nodiscard]] const std::byte* slot_to_empty();
  void empty();

 private:
  struct Control;
  explicit Ring(std::byte* memory);
  [[nodiscard]] std::byte* slot(std::uint64_t number) const;

  Control* control_ = nullptr;
  std::byte* slots_ = nullptr;
  RingShape shape_;
  std::uint64_t mine_ = 0;    // slots that this end has filled or emptied
  std::uint64_t theirs_ = 0;  // what was last seen of the other end; looked up again only when it stops us
};

inline constexpr Offset kRingLine = 128;  // processors fetch lines in pairs

}  // namespace weir::exchange::internal
