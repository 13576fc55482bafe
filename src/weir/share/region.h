#pragma once

// The server's end of a memory file (shared_memory.h has the protocol), mapped in one piece.  Keeps its own record of
// which pages are taken, since other processes can write anything to the control page.
//
// Taking room makes no pages: writers make them, huge pages if they write much (internal/memory_files.h).
//
// A process has thousands of descriptors, not millions: where none is left, it is private memory, which cannot be shared.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <weir/base/aligned_memory.h>
#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/share/block_sums.h>
#include <weir/share/shared_memory.h>

namespace weir::share {

inline constexpr auto kPageBytes = static_cast<Offset>(weir::kPageBytes);
/// Pages of Control that come to exist.
inline constexpr Offset kControlRoom = 2 * kPageBytes;

/// \threadsafety One thread at a time.
class Region {
 public:
  /// \pre 0 <= bytes <= kMappableBytes
  static Result<std::unique_ptr<Region>> make(Offset bytes, Peers peers);
  /// With every page there, for processes of this user.  Takes long, but keeps no other thread waiting.
  static Result<std::unique_ptr<Region>> make_ready(Offset bytes);
  ~Region();  ///< Tells peers that the subfile is gone.
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] Control& control() const noexcept { return *reinterpret_cast<Control*>(base_); }
  [[nodiscard]] std::byte* data() const noexcept { return base_ + kDataStart; }
  [[nodiscard]] Offset mapped_bytes() const noexcept { return mapped_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }  ///< -1: private memory
  /// Writers of a file that is not sealed can make it shorter, which would kill all its readers.
  [[nodiscard]] bool can_be_shared(bool for_writing, Peers peers) const noexcept {
    return descriptor_ >= 0 && (peers == Peers::kOwn || !for_writing || is_sealed_);
  }

  [[nodiscard]] BlockSums sums() const noexcept { return {base_, mapped_}; }

  /// Maps at least `bytes`; data() may move.  \pre bytes <= kMappableBytes
  Status grow(Offset bytes);

  /// Room that take(from, to) would take.  Pages beyond mapped_bytes() count.
  [[nodiscard]] Offset missing_bytes(Offset from, Offset to) const noexcept;
  [[nodiscard]] Offset taken_bytes() const noexcept { return taken_pages_ * kPageBytes; }
  /// Of pages that exist, Control included, of a file that is shared; nothing of private memory.
  [[nodiscard]] std::optional<Offset> real_bytes() const noexcept;
  [[nodiscard]] bool is_taken(Offset page) const noexcept {
    return page / 64 < static_cast<Offset>(pages_.size()) &&
           ((pages_[static_cast<std::size_t>(page / 64)] >> (page % 64)) & 1) != 0;
  }

  /// Counts the pages as taken, and tells in Control.  \pre to <= mapped_bytes()
  void take(Offset from, Offset to);
  /// Makes huge pages within [from, to), as far as they come fast.  \pre to <= mapped_bytes()
  void make_huge_pages(Offset from, Offset to);

  /// Zeroes all from `length` on and gives pages back.  \returns the bytes of room given back
  Result<Offset> cut(Offset length);

  /// Whether peers may write.  Once it returns, peers that wrote before have their bytes in, and others see the fence.
  void fence(bool is_fenced);

  struct Lengths {
    Offset length = 0;
    Offset file_end = 0;
  };
  /// As raised by peers and raise_lengths(); 0 where a peer wrote what cannot be true.
  [[nodiscard]] Lengths lengths() const noexcept;
  void raise_lengths(Lengths to) noexcept;
  void set_lengths(Lengths to) noexcept;

 private:
  explicit Region(Peers peers);
  /// Of a file that is long enough.
  Status map_new(Offset bytes);
  Status zero_and_free(Offset from, Offset to);
  [[nodiscard]] bool is_chunk_taken(Offset chunk) const noexcept;
  [[nodiscard]] Offset count_taken(Offset first_page, Offset end_page) const noexcept;

  int descriptor_ = -1;
  bool is_sealed_ = false;
  bool is_huge_ = false;
  std::byte* base_ = nullptr;
  Offset mapped_ = 0;
  Offset taken_pages_ = 0;
  std::vector<std::uint64_t> pages_;  // one bit a page of data
};

}  // namespace weir::share
