#pragma once

// One anonymous file, laid out as shared_memory.h says, mapped by this process in one piece.  Keeps for itself which pages are
// taken, since other processes can write into Control whatever they like.
//
// Where no descriptor can be had (a process has thousands, not millions) it is private memory instead: the same but for sharing.

#include <cstddef>
#include <memory>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/storage/shared_memory.h>

namespace weir::storage::internal {

inline constexpr Offset kPageBytes = 4096;
inline constexpr Offset kMappableBytes = kMostChunks * kChunkBytes;
/// Pages of Control that come to exist.
inline constexpr Offset kControlRoom = 2 * kPageBytes;

/// \threadsafety One thread at a time.
class Region {
 public:
  /// \pre 0 <= bytes <= kMappableBytes
  static Result<std::unique_ptr<Region>> make(Offset bytes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] Control& control() const noexcept { return *reinterpret_cast<Control*>(base_); }
  [[nodiscard]] std::byte* data() const noexcept { return base_ + kDataStart; }
  [[nodiscard]] Offset mapped_bytes() const noexcept { return mapped_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }  ///< -1: private memory

  /// Maps at least `bytes`; data() may move.  \pre bytes <= kMappableBytes
  Status grow(Offset bytes);

  /// Room that take(from, to) would take.  Pages beyond mapped_bytes() count.
  [[nodiscard]] Offset missing_bytes(Offset from, Offset to) const noexcept;
  [[nodiscard]] Offset taken_bytes() const noexcept { return taken_pages_ * kPageBytes; }
  [[nodiscard]] bool is_taken(Offset page) const noexcept {
    return page / 64 < static_cast<Offset>(pages_.size()) &&
           ((pages_[static_cast<std::size_t>(page / 64)] >> (page % 64)) & 1) != 0;
  }

  /// Counts the pages as taken, and tells in Control.  \pre to <= mapped_bytes()
  void take(Offset from, Offset to);
  /// Makes the pages exist, so that writing to them cannot fail.  \pre to <= mapped_bytes()
  Status allocate(Offset from, Offset to);
  /// As allocate() of all there is, and faults it in here.
  Status populate();

  /// Zeroes all from `length` on and gives pages back.  \returns the bytes of room given back
  Result<Offset> cut(Offset length);

 private:
  Region() = default;
  Status map_new(Offset bytes);
  Status zero_and_free(Offset from, Offset to);
  [[nodiscard]] bool is_chunk_taken(Offset chunk) const noexcept;
  [[nodiscard]] Offset count_taken(Offset first_page, Offset end_page) const noexcept;

  int descriptor_ = -1;
  std::byte* base_ = nullptr;
  Offset mapped_ = 0;
  Offset taken_pages_ = 0;
  std::vector<std::uint64_t> pages_;  // one bit a page of data
};

/// Of memory that is faulted in at once: large enough to be cheap, small enough for those who wait for whoever does it.
inline constexpr Offset kFaultStepBytes = Offset{512} << 10;

/// Makes [from, to) of the subfile in this anonymous file exist and hold zeros, where it does not yet.  \threadsafety Safe.
Status fault_in(int descriptor, Offset from, Offset to);

}  // namespace weir::storage::internal
