#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <weir/share/region.h>
#include <weir/storage/internal/memory_pool.h>
#include <weir/storage/internal/memory_room.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

using share::kControlRoom;
using share::kMappableBytes;
using share::kPageBytes;
using share::Peers;

/// What all subfiles of a memory store draw on.
struct MemorySource {
  Room room;
  Pool pool;
  bool verifies = false;             ///< Shared memory has checksums.
  std::uint64_t damaged_blocks = 0;  ///< Found so far.
  bool takes_ahead = true;           ///< Room that nobody has asked for yet.

  /// The pool holds no more than a quarter of the room that is left.
  void note_room() { pool.keep_at_most(room.free_bytes() / 4); }
};

/// The bytes of one subfile: in `heap_` or `region_` (one of them), and what lies beyond kMappableBytes in `far_`.
/// Bytes that were never written, or cut off, are zero everywhere.  \pre of all: 0 <= offsets <= kMaxBytes, from <= to
class MemorySubfile {
 public:
  explicit MemorySubfile(MemorySource& source) : source_(&source) {}
  ~MemorySubfile();  ///< Gives all room back.
  MemorySubfile(const MemorySubfile&) = delete;
  MemorySubfile& operator=(const MemorySubfile&) = delete;

  void read(Offset offset, std::span<std::byte> memory) const;
  Status write(Offset offset, std::span<const std::byte> memory);
  void note_written(Offset to, Offset file_end);
  /// \error kCorrupt
  Status truncate(Offset length, Offset file_end);
  Status reserve(Offset from, Offset to);
  [[nodiscard]] SubfileInfo info() const;

  /// Nothing if the bytes do not lie in one piece, or (for reading) are partly holes, or (for writing) there is no room
  /// for all.
  std::optional<std::span<std::byte>> map(Offset from, Offset to, bool for_writing);

  // Of shared memory with checksums; otherwise these do nothing.

  /// Before bytes are written that map() gave, until note_written().  \error kCorrupt if there is damage that the write
  /// would leave
  Status begin_write(Offset from, Offset to, bool is_covered);
  /// \error kCorrupt if there is damage
  Status verify(const share::BlockSet& blocks);
  [[nodiscard]] bool is_verified() const noexcept { return is_verified_; }
  /// From now on, bytes written so far are verified when they are read.
  void seal();

  /// Whether peers that have mapped it, now or later, may write to it.
  void fence(bool is_fenced);

  /// The region, made if need be, best for so many bytes.
  Result<Region*> shared_region(Offset expected_bytes, Peers peers);

 private:
  using Block = std::unique_ptr<std::byte[]>;

  void read_near(Offset offset, std::span<std::byte> memory) const;
  void read_far(Offset offset, std::span<std::byte> memory) const;
  Status write_far(Offset offset, std::span<const std::byte> memory);
  /// Takes room for [from, to) below kMappableBytes: afterwards it can be written by memcpy.
  Status take_near(Offset from, Offset to);
  Status take_heap(Offset to);
  Status take_region(Offset from, Offset to);
  Status take_far(Offset from, Offset to);
  /// For so many bytes; `ready_bytes` of them, from the first on, will soon be written: memory that is ready may be used.
  Status move_to_region(Offset bytes, Offset ready_bytes, Peers peers);
  void take_ahead(Offset from, Offset to);
  void raise_lengths(Offset to, Offset file_end);
  /// \error kCorrupt: nothing was declared
  Status declare(const share::BlockSet& blocks);
  Status damage(Offset block);
  Status cut_near(Offset length);
  void cut_far(Offset length);
  [[nodiscard]] std::byte* near_data() const noexcept;
  /// Room that is taken, also if no page is there yet.
  [[nodiscard]] Offset taken_bytes() const noexcept;

  MemorySource* source_;
  std::vector<std::byte> heap_;
  std::unique_ptr<Region> region_;
  std::unique_ptr<std::map<Offset, Block>> far_;  // by number of block, from 0; few subfiles have any
  Offset length_ = 0;
  Offset file_end_ = 0;
  bool is_fenced_ = false;
  bool is_verified_ = false;                   // it is shared, and has checksums
  std::optional<share::BlockSet> declared_;    // from begin_write() to note_written()
  std::map<Offset, std::uint64_t> found_bad_;  // word by block
};

}  // namespace weir::storage::internal
