#pragma once

// The memory of a subfile that clients on the same host map: one anonymous file that holds just this subfile.
//
//   from 0                 Control, written by both sides with atomic operations only; then a hole
//   kDataStart + x         byte x of the subfile; so that huge pages hold two chunks each
//
// The file only grows (shared for writing with processes of other users, it is sealed against shrinking, so that they
// cannot take pages away under a reader), and its length is Control::mapped_bytes + kDataStart.  Room is taken in
// chunks:
//
//   is_full(chunk)      room is taken for every page of it: may be written without the server.  Full chunks are touched, too
//   is_made(chunk)      every page exists.  Pages of full chunks are made by the client that first writes there
//   is_touched(chunk)   something may have been written: may be read.  Otherwise it is all zero, and reading it would only take room
//
// A client checks `state` before and after each access, writes only to full chunks below mapped_bytes (else it asks the
// server to reserve them), and afterwards raises `length` and `file_end`.  Between writing and looking at `state` again
// it takes a turn, as does the server between fencing the subfile and reading it: either the client sees the fence, and
// writes its bytes again where they belong then, or the server sees the bytes.  What a client writes into Control can
// hurt only this subfile: the server believes no value in it without checking its range.

#include <atomic>
#include <cstdint>

#include <weir/base/checked.h>

namespace weir::storage {

inline constexpr Offset kChunkBytes = Offset{1} << 20;
inline constexpr Offset kControlBytes = 32768;
inline constexpr Offset kDataStart = Offset{2} << 20;
/// Subfile bytes that can be mapped; what lies beyond goes by message.
inline constexpr Offset kMostChunks = 65536;
inline constexpr Offset kClaimableChunks = 8192;

struct Control {
  /// kGone: removed or given a new layout; open again.  kFenced: being given a new layout; may be read, not written.
  enum State : std::uint32_t { kServing = 1, kGone = 2, kFenced = 3 };
  std::atomic<std::uint32_t> state{kServing};
  std::atomic<std::uint32_t> turns{0};
  std::atomic<std::uint32_t> mappings{0};  ///< So many clients mapped it so far.
  /// How the server came by huge pages when it made this.
  enum Huge : std::uint32_t { kNoHugePages = 0, kHugePages = 1, kSlowHugePages = 2 };
  std::atomic<std::uint32_t> huge{kNoHugePages};
  std::atomic<Offset> mapped_bytes{0};
  std::atomic<Offset> length{0};
  std::atomic<Offset> file_end{0};
  /// Chunks whose pages some client makes, or has made: of several that come at the same time, each makes others.  And
  /// those whose pages are all there, with zeros or bytes in them.  Only hints, and only of the first chunks, so that
  /// they take no page more.
  std::atomic<std::uint64_t> claimed[kClaimableChunks / 64];
  std::atomic<std::uint64_t> made[kClaimableChunks / 64];
  std::atomic<std::uint64_t> touched[kMostChunks / 64];
  std::atomic<std::uint64_t> full[kMostChunks / 64];
};
static_assert(sizeof(Control) <= kControlBytes);
static_assert(std::atomic<Offset>::is_always_lock_free);

/// Of two that take a turn, the later one sees all that the earlier one has written.
inline void take_turn(Control& control) noexcept { control.turns.fetch_add(1, std::memory_order_acq_rel); }

inline bool test_bit(const std::atomic<std::uint64_t>* bits, Offset chunk) noexcept {
  return ((bits[chunk / 64].load(std::memory_order_acquire) >> (chunk % 64)) & 1) != 0;
}

inline void set_bit(std::atomic<std::uint64_t>* bits, Offset chunk) noexcept {
  bits[chunk / 64].fetch_or(std::uint64_t{1} << (chunk % 64), std::memory_order_release);
}

inline bool is_made(const Control& control, Offset chunk) noexcept {
  return chunk < kClaimableChunks && test_bit(control.made, chunk);
}

inline void note_made(Control& control, Offset chunk) noexcept {
  if (chunk < kClaimableChunks) set_bit(control.made, chunk);
}

/// True for the first that asks, if the chunk can be claimed at all.
inline bool claim(Control& control, Offset chunk) noexcept {
  if (chunk >= kClaimableChunks) return false;
  const std::uint64_t bit = std::uint64_t{1} << (chunk % 64);
  std::atomic<std::uint64_t>& word = control.claimed[chunk / 64];
  return (word.load(std::memory_order_relaxed) & bit) == 0 &&
         (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}

/// Raises `value` to at least `to`.
inline void raise(std::atomic<Offset>& value, Offset to) noexcept {
  Offset seen = value.load(std::memory_order_relaxed);
  while (seen < to && !value.compare_exchange_weak(seen, to, std::memory_order_release)) {
  }
}

/// A descriptor for a peer to map, for reading only if it was shared so.  Owned by the store: duplicate or send it
/// before the next call on the store.
struct SharedMemory {
  int descriptor = -1;
  Offset mapped_bytes = 0;
};

}  // namespace weir::storage
