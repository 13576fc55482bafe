#pragma once

// Where subfiles are stored.  One asynchronous interface, several stores: memory, disk, and decorators that slow one
// down or make it fail.
//
//   store.submit({.operations = {{op::Write{id, {{0, bytes}}, 4096}}, {op::Sync{id}}}}, [](IoBatch done) { ... });
//
// A subfile is an endless sequence of bytes, zero where nothing was written; one that was never written takes no space
// and needs no call to create it.  A store knows nothing of layouts: offsets are the subfile's own, and all it keeps of
// the file is a number, `file_end`.
//
// Order.  Operations may overtake each other, and batches complete in any order, but operations on one subfile that
// conflict take effect in the order in which they were submitted (within a batch: in which they are listed):
//
//   read, write              conflict if they share bytes and one of them writes
//   info, kept_about         conflict with everything that changes the subfile
//   all others               conflict with every other operation on the subfile
//
// So a sync covers every write submitted before it.  Operations on the whole store (list, usage) see what completed
// before they were submitted, and maybe more; keep_fences and set_label take effect in order.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/runtime/runtime.h>
#include <weir/share/shared_memory.h>
#include <weir/storage/label.h>

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

/// A subfile that must not be written, even after a restart of the server, until the client with the token says so.
struct KeptFence {
  SubfileId id;
  std::uint64_t token = 0;
  friend bool operator==(const KeptFence&, const KeptFence&) = default;
};

/// What can be done.  Results are filled in before completion.
namespace op {

/// Fills all pieces; zeros where nothing was written.  Pieces do not overlap in memory.
/// \error kCorrupt if a checksum does not match: names the subfile and the block.
struct Read {
  SubfileId id;
  std::vector<ReadPiece> pieces;
};
/// Writes all pieces; pieces do not overlap in the subfile.  `file_end` counts if it is larger than the one kept.
/// \error kNoSpace: nothing was written that reads did not show before, or part of it was; the subfile stays usable.
struct Write {
  SubfileId id;
  std::vector<WritePiece> pieces;
  Offset file_end = 0;
};
/// Cuts off or extends (with zeros, no space taken) to `length` bytes, and sets the kept end of the file.
struct Truncate {
  SubfileId id;
  Offset length = 0;
  Offset file_end = 0;
};
/// Allocates space for [from, to) so that writing there cannot fail for lack of it.  Contents and length stay.
struct Reserve {
  SubfileId id;
  Offset from = 0;
  Offset to = 0;
};
/// When it completes, all that was written before survives a crash, as far as the store can promise that at all.
struct Sync {
  SubfileId id;
};
/// A subfile that does not exist is removed already.
struct Remove {
  SubfileId id;
};
/// Of a subfile never written: all zero.
struct Info {
  SubfileId id;
  SubfileInfo result = {};
};
/// Keeps bytes of the caller's beside the subfile, instead of those kept before: what is known of its file.  They go
/// when it is removed, and are durable with the next sync of it.  The subfile need not have been written.  Does nothing
/// unless capabilities().keeps_about.
struct KeepAbout {
  SubfileId id;
  std::vector<std::byte> about;
};
/// Nothing if none are kept.  \error kCorrupt: they are damaged; names the file
struct KeptAbout {
  SubfileId id;
  std::optional<std::vector<std::byte>> result = {};
};
/// All subfiles that take space, ascending.
struct List {
  std::vector<SubfileId> result = {};
};
/// All subfiles that have something kept by KeepAbout, written or not, ascending.
struct ListAbouts {
  std::vector<SubfileId> result = {};
};
struct GetUsage {
  Usage result = {};
};
/// Space that the store itself takes; may look at every file.
struct StoredBytes {
  Offset result = 0;
};
/// Fences that outlive the process, as the bytes do: these, instead of those kept before.  Durable when it completes.
/// Stores whose bytes do not outlive the process keep none.
struct KeepFences {
  std::vector<KeptFence> fences;
};
struct KeptFences {
  std::vector<KeptFence> result = {};
};
/// Durable when it completes.
struct SetLabel {
  Label label;
};

using Any = std::variant<Read, Write, Truncate, Reserve, Sync, Remove, Info, KeepAbout, KeptAbout, List, ListAbouts,
                         GetUsage, StoredBytes, KeepFences, KeptFences, SetLabel>;

/// "read", for messages.
const char* name_of(const Any& operation) noexcept;

}  // namespace op

struct Operation {
  op::Any what;
  Status status = {};  ///< When it has completed.
};

/// Demand is what a caller waits for; it goes first whenever both wait.
enum class Priority : std::uint8_t { kDemand, kBackground };

/// Operations that complete together.  Each is attempted, whatever becomes of the others.
struct IoBatch {
  std::vector<Operation> operations;
  Priority priority = Priority::kDemand;
  /// Operations that have not begun when it becomes false complete with kUnavailable.  Null: always wanted.
  std::shared_ptr<const std::atomic<bool>> is_wanted = {};

  /// The first error of any.
  [[nodiscard]] Status status() const;
};

using Completion = std::function<void(IoBatch)>;

/// What a store can do.
struct Capabilities {
  bool mappable = false;     ///< map() gives memory, and operations complete inside submit().
  bool shareable = false;    ///< share() gives memory to other processes.
  bool durable = false;      ///< Its bytes outlive the process.
  bool keeps_about = false;  ///< KeepAbout keeps something.
  bool verifies = false;     ///< Shared memory has checksums: share/block_sums.h.
};

/// The thread that owns a store, where its completions are called.
class Loop {
 public:
  virtual ~Loop() = default;
  /// Runs `task` on the owner's thread, soon.  \threadsafety Safe from any thread.
  virtual void post(std::function<void()> task) = 0;
  /// Runs `task` on the owner's thread at `time`.  Called by the owner's thread only.
  virtual void at(runtime::TimePoint time, std::function<void()> task) = 0;
};

/// \threadsafety One thread at a time: its owner.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  /// stop()
  virtual ~Store() = default;

  /// Calls `done` with the batch once all of it has completed: before this returns, or later by the loop.  Memory that
  /// the operations name stays until then.
  virtual void submit(IoBatch batch, Completion done) = 0;

  /// Completes every batch before it returns, with kUnavailable where an operation had not begun; and at once those
  /// that are submitted later.  What was written becomes durable as after a sync.  Idempotent.
  virtual void stop() = 0;

  /// Where completions are called from now on, also those of batches under way.  Stores that are not mappable need it
  /// before submit().  \returns the one before
  virtual Loop* deliver_to(Loop* loop) = 0;

  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  /// Of this store only, kept as long as its bytes are: a store that lost them is another.
  [[nodiscard]] virtual std::uint64_t id() const = 0;
  /// Which file system the store is part of; all zero if that is not kept.
  [[nodiscard]] virtual Label label() const { return {}; }

  // Of mappable stores.

  /// The bytes [from, to) of the subfile as memory: plans then run directly on it.  Nothing if they cannot be mapped.
  /// Valid until the next operation on this subfile.  Writing through it follows begin_write() and is followed by
  /// note_written().
  /// \error kCorrupt if what is to be read was damaged
  virtual Result<std::optional<std::span<std::byte>>> map(SubfileId id, Offset from, Offset to, bool for_writing) {
    (void)id, (void)from, (void)to, (void)for_writing;
    return std::optional<std::span<std::byte>>{};
  }
  /// \error kCorrupt if part of what the write would leave as it is was damaged
  /// `is_covered`: every byte of [from, to) will be written.
  virtual Status begin_write(SubfileId id, Offset from, Offset to, bool is_covered) {
    (void)id, (void)from, (void)to, (void)is_covered;
    return Status::ok();
  }
  virtual void note_written(SubfileId id, Offset to, Offset file_end) { (void)id, (void)to, (void)file_end; }

  /// Of shared memory: blocks that were found to be damaged so far.
  [[nodiscard]] virtual std::uint64_t damaged_blocks() const { return 0; }

  /// Whether room may be taken that nobody has asked for yet, because it is likely to be needed: peers that have mapped
  /// a subfile write to it without asking.
  virtual void allow_ahead(bool is_allowed) { (void)is_allowed; }

  /// Tells processes that have mapped the subfile that they must not write to it (any more, or again).  They look
  /// before and after each write, and do again elsewhere what was written while it was fenced; the server itself
  /// refuses other writes.
  virtual void fence(SubfileId id, bool is_fenced) { (void)id, (void)is_fenced; }

  /// The subfile for other processes on this host to map; nothing if the store has no such thing, or not for these.
  /// `expected_bytes`: how long it will soon be, as far as is known; memory for that may be at hand.
  virtual Result<std::optional<share::SharedMemory>> share(SubfileId id, bool for_writing, Offset expected_bytes,
                                                           share::Peers peers) {
    (void)id, (void)for_writing, (void)expected_bytes, (void)peers;
    return std::optional<share::SharedMemory>{};
  }
};

}  // namespace weir::storage
