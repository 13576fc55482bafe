#pragma once

// Checksums of mapped memory (docs/decisions/022): they show that bytes of a memory file were changed by something that
// did not declare it, such as a wild pointer in a process that has the file mapped.
//
// Between the control page and the data of a memory file is one word for each block of 64 KiB:
//
//   unsealed    how many writers are at work on the block, and a version that each new writer changes; no checksum
//   sealed      39 bits of the block's XXH3, and 24 bits of the version
//
//   begin_write   Verifies blocks that are sealed and of which the write leaves some bytes as they are: what is damaged
//                 must not be sealed again.  Then unseals all of them, counts the writer, changes the version.
//                 crash: the block stays unsealed for good, and is not verified.
//   end_write     Counts the writer out.
//   seal          At sync and close, by client or server.  Of a block without writers: reads the word, computes the
//                 checksum, and replaces the word if it is still the same.  Two that seal at once compute the same.
//                 crash: nothing happened.
//   find_damage   Reads the word, computes the checksum, reads the word again.  If that changed, a writer has come, and
//                 the block is not verified this time.  So writers and readers never wait for each other, and never
//                 mistake a declared write for damage.
//
// Compiled without the thread sanitizer: checksums are computed of bytes that others may be writing, and thrown away if
// they were.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <weir/base/checked.h>
#include <weir/share/shared_memory.h>

namespace weir::share {

inline constexpr Offset kBlockBytes = Offset{64} << 10;
/// As many as there are words for; what lies beyond in a subfile is not verified.
inline constexpr Offset kMostBlocks = (kDataStart - kControlBytes) / static_cast<Offset>(sizeof(std::uint64_t));
inline constexpr Offset kSummedBytes = kMostBlocks * kBlockBytes;

/// Blocks that have bytes of an access.
class BlockSet {
 public:
  /// For bytes within [from, to).
  BlockSet(Offset from, Offset to);
  /// All of [from, to).
  static BlockSet of(Offset from, Offset to);
  /// Those with bytes of [from, to), of which only some are accessed.
  static BlockSet touching(Offset from, Offset to);
  /// \pre within the bytes that it is for; of a write, no byte is added twice
  void add(Offset from, Offset to);

  [[nodiscard]] Offset begin() const noexcept { return first_; }
  [[nodiscard]] Offset end() const noexcept { return first_ + static_cast<Offset>(bytes_.size()); }
  [[nodiscard]] bool has(Offset block) const noexcept { return bytes_of(block) > 0; }
  [[nodiscard]] bool is_covered(Offset block) const noexcept { return bytes_of(block) >= kBlockBytes; }

 private:
  [[nodiscard]] Offset bytes_of(Offset block) const noexcept {
    return bytes_[static_cast<std::size_t>(block - first_)];
  }
  Offset first_;
  std::vector<std::uint32_t> bytes_;  // by block
};

/// The checksums of one mapping of a memory file.  \threadsafety Safe, also from other processes.
class BlockSums {
 public:
  /// `file`: its first byte; `room`: bytes of the subfile that are mapped.
  BlockSums(std::byte* file, Offset room);

  /// Declares a write; end_write() follows.  \returns a damaged block: then nothing was declared
  [[nodiscard]] std::optional<Offset> begin_write(const BlockSet& blocks) const;
  void end_write(const BlockSet& blocks) const;

  /// A block of these that is sealed and has other bytes.
  [[nodiscard]] std::optional<Offset> find_damage(const BlockSet& blocks) const;

  /// Whether seal() would do something: the block was written since it was last sealed.
  [[nodiscard]] bool is_due(Offset block) const;
  /// \pre every page of the block has room
  void seal(Offset block) const;

  /// To tell different damages of a block from the same that is found again.
  [[nodiscard]] std::uint64_t word(Offset block) const;

 private:
  [[nodiscard]] std::uint64_t sum_of(Offset block) const;
  [[nodiscard]] bool is_damaged(Offset block) const;
  void open(Offset block) const;
  void close(Offset block) const;

  std::atomic<std::uint64_t>* words_;
  const std::byte* data_;
  Offset blocks_;
};

}  // namespace weir::share
