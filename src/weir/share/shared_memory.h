#pragma once

// The shared-memory protocol: how clients on a server's host read and write a subfile of a memory store without messages.
//
// Each subfile is one anonymous file, the *memory file*, that holds nothing else:
//
//   from 0                 Control, the control page; then a hole
//   kControlBytes          words with checksums of blocks (block_sums.h), if the server verifies memory; otherwise a hole
//   kDataStart + x         byte x of the subfile, so that each huge page holds two chunks
//
// The server's end is Region (region.h), Life (life.h) and HandoverServer (handover_server.h); the client's end is
// MappedSubfile (mapped_subfile.h), Lifeline (lifeline.h), open_memory() and fetch_memory() (handover.h).
//
// Steps, and what a crash in each leaves behind.  The kernel unmaps what a dead process had mapped, so a dead client
// holds no memory; the memory of a dead server lives on until the last client unmaps it, but no server has it any more.
//
//   1  hand over  The client asks by message; the server makes the memory file and answers how to get it (handover.h).
//                 client: an unused offer expires.  server: the call fails.
//   2  map        The client maps memory file and lifeline, and adds 1 to `mappings`.
//                 client: the count stays raised, which only moves where later writers begin.  server: the lifeline
//                 ends, and the client drops the mapping at its next access.
//   3  reserve    The client asks by message for whole chunks.  The server counts their room, lengthens the file, stores
//                 `mapped_bytes`, sets `touched`, then `full`.
//                 client: the room stays taken until the subfile is cut or removed; it reads as zeros.
//   4  make pages The client sets `claimed`, makes the pages of the chunk, sets `made`.
//                 client: the chunk stays claimed; later writers get its pages one by one.
//   5  write      The client checks that the state is kServing and the chunks are full, and copies.
//                 client: some of the bytes are there.  They show if they lie below `length`, now or later.
//   6  publish    The client raises `length`, then `file_end`, then takes a turn.
//                 client: a prefix of these; the write was not reported as done.
//   7  check      The client looks at the lifeline, then at the state again.  Server gone: it sends the bytes by message.
//                 kFenced or kGone: it writes them again, with the file's new layout.  Otherwise the write is done.
//                 server: bytes written since the last sync are lost.  The writer sees another boot id then, and the
//                 next sync or close reports the loss.
//   -  read       As 5 and 7, without a write to the page: copies chunks that are touched; untouched ones are zero.
//   -  fence      Before a relayout copies the subfile: the server stores kFenced, takes a turn, and reads.  Of two that
//                 take a turn, the later sees what the earlier wrote before: the client sees the fence in step 7, or the
//                 server sees the bytes of step 5.  Lifted by storing kServing.
//                 client that asked for it: the server lifts the fence after a while, unless the relayout was confirmed.
//   -  cut        Truncation: the server clears `full`, frees the pages, clears `touched`, `claimed` and `made`, stores
//                 `length` and `file_end`.
//   -  remove     The server stores kGone and unmaps the file.  Its pages are never used for another subfile: clients
//                 may still have them mapped.
//
//   state    kServing <──> kFenced      any ──> kGone, for good
//   chunk    hole ──server──> touched ──server──> full        then, as hints: claimed ──> made
//
// Who writes which word:
//
//   state, mapped_bytes, huge, touched, full    the server only
//   mappings                                    clients only
//   turns, length, file_end, claimed, made      both
//   words of blocks                             both
//
// A client that maps for reading writes nothing.  The server keeps its own copy of all that it relies on and checks the
// range of what it reads: a client that writes nonsense to the page damages this subfile only.  The file only grows, and
// its length is at least kDataStart + mapped_bytes; one that other users may write is sealed against shrinking, which
// would kill its readers (internal/memory_files.h).

#include <atomic>
#include <cstdint>

#include <weir/base/checked.h>

namespace weir::share {

inline constexpr Offset kChunkBytes = Offset{1} << 20;
inline constexpr Offset kControlBytes = 32768;
inline constexpr Offset kDataStart = Offset{2} << 20;
/// Subfile bytes that can be mapped; what lies beyond goes by message.
inline constexpr Offset kMostChunks = 65536;
inline constexpr Offset kMappableBytes = kMostChunks * kChunkBytes;
inline constexpr Offset kClaimableChunks = 8192;

struct Control {
  /// kGone: removed, or replaced by a new layout: open the file again.  kFenced: its file gets a new layout: read only.
  enum State : std::uint32_t { kServing = 1, kGone = 2, kFenced = 3 };
  std::atomic<std::uint32_t> state{kServing};
  std::atomic<std::uint32_t> turns{0};
  std::atomic<std::uint32_t> mappings{0};  ///< How many clients have mapped it for writing so far.
  /// Whether the file has huge pages, and how fast the server got its last one.
  enum Huge : std::uint32_t { kNoHugePages = 0, kHugePages = 1, kSlowHugePages = 2 };
  std::atomic<std::uint32_t> huge{kNoHugePages};
  std::atomic<Offset> mapped_bytes{0};
  std::atomic<Offset> length{0};    ///< Of the subfile.
  std::atomic<Offset> file_end{0};  ///< Of the file, as far as writers of this subfile know.
  /// Hints, for the first chunks only so that they take no further page.  claimed: some client makes the pages of the
  /// chunk, or has made them; clients that come at the same time make different ones.  made: every page exists.
  std::atomic<std::uint64_t> claimed[kClaimableChunks / 64];
  std::atomic<std::uint64_t> made[kClaimableChunks / 64];
  /// Something may have been written: may be read.  Reading another chunk would only take room.
  std::atomic<std::uint64_t> touched[kMostChunks / 64];
  /// Room is taken for every page: may be written.  Full chunks are touched, too.
  std::atomic<std::uint64_t> full[kMostChunks / 64];
};
static_assert(sizeof(Control) <= kControlBytes);
static_assert(std::atomic<Offset>::is_always_lock_free);

/// Of two that take a turn, the later one sees all that the earlier one wrote before.
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

/// True for the first caller, if the chunk has a hint.
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

/// Who maps the memory: only processes of the server's user, or also those of others.
enum class Peers : std::uint8_t { kOwn, kOthers };

/// A descriptor for a peer to map, read-only if it was shared for reading.  Owned by the store: duplicate or send it
/// before the next call on the store.
struct SharedMemory {
  int descriptor = -1;
  Offset mapped_bytes = 0;
};

}  // namespace weir::share
