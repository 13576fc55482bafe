#pragma once

// Where subfiles live.  One interface, several stores: memory (MemoryStore), disk (DiskStore), and one that fails on
// demand (FaultyStore) for tests.
//
// A subfile is an endless sequence of bytes, zero where nothing was written; one that was never written needs no room
// and no call to make it.  A store knows nothing of layouts: offsets are the subfile's own, and what it keeps of the
// file is a number, `file_end`.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>

namespace weir::storage {

struct SubfileId {
  std::uint64_t file = 0;
  std::uint32_t element = 0;
  friend auto operator<=>(const SubfileId&, const SubfileId&) = default;
};

struct ReadPiece {
  Offset offset = 0;
  std::span<std::byte> memory;
};

struct WritePiece {
  Offset offset = 0;
  std::span<const std::byte> memory;
};

struct SubfileInfo {
  Offset length = 0;  ///< One past the last byte of the subfile ever written, or what truncate() said.
  Offset file_end =
      0;  ///< The same of the file, as callers of write() and truncate() gave it: the size of the file is the largest.
  Offset stored_bytes = 0;  ///< What the system really has taken; less than `length` if there are holes.
};

struct Usage {
  Offset capacity_bytes = 0;  ///< Of a disk store: of its disk.
  Offset used_bytes = 0;      ///< The same, by others too.
  Offset subfiles = 0;
  std::uint64_t disk = 0;  ///< Stores with the same number share a disk; 0: memory of its own.
};

/// Memory of a subfile that other processes can map: see MemoryStore.
struct SharedMemory;
/// Who maps it: processes of this one's user, or also those of others.
enum class Peers : std::uint8_t { kOwn, kOthers };

/// A subfile that may not be written, whatever happens to the server, until the client that has the token says so.
struct KeptFence {
  SubfileId id;
  std::uint64_t token = 0;
  friend bool operator==(const KeptFence&, const KeptFence&) = default;
};

struct Label;

/// \threadsafety One thread at a time: a store belongs to the thread of its target.
class Store {
 public:
  virtual ~Store() = default;

  /// Fills all pieces; zeros where nothing was written.  Pieces do not overlap in memory.
  /// \error kCorrupt if a checksum does not fit: names the subfile and the block.
  virtual Status read(SubfileId id, std::span<const ReadPiece> pieces) = 0;

  /// Writes all pieces; pieces do not overlap in the subfile.  `file_end` counts if it is larger than that kept.
  /// \error kNoSpace: nothing was written that reads did not show before, or part of it was; the subfile stays usable.
  virtual Status write(SubfileId id, std::span<const WritePiece> pieces, Offset file_end) = 0;

  /// Cuts off or extends (with zeros, no room taken) to `length` bytes, and sets what is kept of the file's end.
  virtual Status truncate(SubfileId id, Offset length, Offset file_end) = 0;

  /// Takes room for [from, to) so that writing there cannot fail for want of it.  Contents and length stay.
  virtual Status reserve(SubfileId id, Offset from, Offset to) = 0;

  /// When it returns, all that was written before survives a crash, as far as the store can promise that at all.
  virtual Status sync(SubfileId id) = 0;

  /// Of a subfile never written: all zero.
  virtual Result<SubfileInfo> info(SubfileId id) = 0;

  /// A subfile that does not exist is removed already.
  virtual Status remove(SubfileId id) = 0;

  virtual Result<Usage> usage() = 0;
  /// Room that the store itself takes; may look at every file.
  virtual Result<Offset> stored_bytes() {
    WEIR_TRY(const Usage all, usage());
    return all.used_bytes;
  }

  /// All subfiles that take room, ascending.
  virtual Result<std::vector<SubfileId>> list() = 0;

  /// The bytes [from, to) of the subfile as memory, for stores that have them so: plans then run straight on it.
  /// Nothing otherwise.  Valid until the next call on this subfile.  Writing through it is followed by note_written().
  virtual Result<std::optional<std::span<std::byte>>> map(SubfileId id, Offset from, Offset to, bool for_writing) {
    (void)id, (void)from, (void)to, (void)for_writing;
    return std::optional<std::span<std::byte>>{};
  }
  virtual void note_written(SubfileId id, Offset to, Offset file_end) { (void)id, (void)to, (void)file_end; }

  /// Tells processes that have mapped the subfile that they must not write to it (any more, or again).  They look
  /// before and after each write, and do again elsewhere what was written while it was fenced; the server itself
  /// refuses other writes.
  virtual void fence(SubfileId id, bool is_fenced) { (void)id, (void)is_fenced; }

  /// Fences that outlive the process, as the bytes do: these, instead of those kept before.  Durable when it returns.
  /// Stores whose bytes do not outlive it keep none.
  virtual Status keep_fences(std::span<const KeptFence> fences) {
    (void)fences;
    return Status::ok();
  }
  virtual Result<std::vector<KeptFence>> kept_fences() { return std::vector<KeptFence>{}; }

  /// Whether keep_about() keeps anything.
  [[nodiscard]] virtual bool keeps_about() const { return false; }
  /// Keeps bytes of the caller's beside the subfile, instead of those kept before: what is known of its file.  They go
  /// when it is removed, and are durable with the next sync() of it.  The subfile need not have been written.
  virtual Status keep_about(SubfileId id, std::span<const std::byte> about) {
    (void)id, (void)about;
    return Status::ok();
  }
  /// Nothing if none are kept.  \error kCorrupt: they are damaged; names the file
  virtual Result<std::optional<std::vector<std::byte>>> kept_about(SubfileId id) {
    (void)id;
    return std::optional<std::vector<std::byte>>{};
  }
  /// All subfiles that keep_about() was called for, written or not, ascending.
  virtual Result<std::vector<SubfileId>> list_abouts() { return std::vector<SubfileId>{}; }

  /// Which file system the store is part of; all zero if that is not kept.
  [[nodiscard]] virtual Label label() const;
  /// Durable when it returns.
  virtual Status set_label(const Label& label);

  /// Whether calls wait for a disk.  Such a store has no memory to map or to share, and a thread of its own works on
  /// it.
  [[nodiscard]] virtual bool waits() const { return false; }

  /// Of this store only, kept as long as its bytes are: a store that lost them is another.
  [[nodiscard]] virtual std::uint64_t id() const = 0;

  /// The subfile for other processes on this host to map; nothing if the store has no such thing, or not for these.
  /// `expected_bytes`: how long it will soon be, as far as is known; memory for that may be at hand.
  virtual Result<std::optional<SharedMemory>> share(SubfileId id, bool for_writing, Offset expected_bytes, Peers peers);
};

}  // namespace weir::storage
