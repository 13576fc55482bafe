#pragma once

// The file with the checksums of one part: two slots for the header, then 8 bytes for each block of 16 KiB.
//
//   0      header, or nothing       the valid header with the higher sequence number counts; the next one is written to
//   4096   header, or nothing       the other slot, so that a write torn by a crash leaves one
//   8192   sums of blocks 0..511    XXH3 (64 bits) of the whole block, with zeros behind the end of the file; 0: not verified
//   12288  sums of blocks 512..1023, and so on
//
// A sum stands for itself: no checksum spans several of them, so a torn write cannot take sums of other blocks along.

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/storage/internal/disk_files.h>

namespace weir::storage::internal {

inline constexpr Offset kBlockBytes = 16384;
inline constexpr Offset kSumsPerPage = 512;
inline constexpr Offset kSumPageBytes = 4096;
inline constexpr Offset kHeaderSlotBytes = 4096;
inline constexpr Offset kSumsStart = 2 * kHeaderSlotBytes;

/// Of a sum that is not known.  In the file: of a block that is not verified.
inline constexpr std::uint64_t kNoSum = 0;

/// Never kNoSum.  \pre block.size() == kBlockBytes
std::uint64_t sum_of(std::span<const std::byte> block) noexcept;

constexpr Offset blocks_in(Offset bytes) noexcept { return ceil_div(bytes, kBlockBytes); }

/// How long the file is at least if the part has this many bytes: whole pages.
constexpr Offset sums_file_bytes(Offset data_length) noexcept {
  return kSumsStart + ceil_div(blocks_in(data_length), kSumsPerPage) * kSumPageBytes;
}

struct SumsHeader {
  std::uint64_t sequence = 0;   ///< 0: none was ever written.
  Offset data_length = 0;       ///< Of this part, at the last sync.  Sums of blocks behind it do not count.
  Offset subfile_length = 0;    ///< Of the subfile; in part 0 only.
  Offset file_end = 0;          ///< Likewise.
  bool has_more_parts = false;  ///< Likewise: there may be parts besides part 0.
};

using HeaderSlot = std::array<std::byte, static_cast<std::size_t>(kHeaderSlotBytes)>;

HeaderSlot encode_header(const SumsHeader& header, PartName part);

/// The header in the two slots at the beginning of the file, `bytes`; sequence 0 if both are all zero: the part was
/// never synced.  Nothing if they are damaged, of another part, or of a version or block size that is not known.
std::optional<SumsHeader> decode_headers(std::span<const std::byte, kSumsStart> bytes, PartName part);

/// Sums of 512 blocks in memory.
struct SumPage {
  std::vector<std::uint64_t> sums;     ///< As far as they are known; kNoSum behind the end.
  std::bitset<kSumsPerPage> unmarked;  ///< In the file, durably, the sum is kNoSum: the block may be written.
  bool is_dirty = false;               ///< The file has to be brought up to date.

  [[nodiscard]] std::uint64_t sum(std::size_t i) const noexcept { return i < sums.size() ? sums[i] : kNoSum; }
  void set_sum(std::size_t i, std::uint64_t sum);
  /// Whether the file may hold a sum that a write to the block would make wrong.
  [[nodiscard]] bool is_marked(std::size_t i) const noexcept { return sum(i) != kNoSum && !unmarked[i]; }
};

using SumPageImage = std::array<std::uint64_t, static_cast<std::size_t>(kSumsPerPage)>;

/// What the file is to hold, with kNoSum for the blocks in `without`.
SumPageImage image_of(const SumPage& page, const std::bitset<kSumsPerPage>& without);

}  // namespace weir::storage::internal
