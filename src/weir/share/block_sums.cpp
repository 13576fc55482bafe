#include <weir/share/block_sums.h>

#include <algorithm>

// A few functions, which programs then need no library for.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weir::share {

namespace {

//   sealed     bit 0 set, 24 bits of the version, 39 bits of the checksum
//   unsealed   bit 0 clear, 12 bits for the number of writers, 51 bits of the version
constexpr std::uint64_t kSealed = 1;
constexpr std::uint64_t kOneWriter = 2;
// Of so many, some have surely died: the block stays unsealed.
constexpr std::uint64_t kMostWriters = std::uint64_t{4095} * kOneWriter;
constexpr int kVersionShift = 13;
constexpr std::uint64_t kOneVersion = std::uint64_t{1} << kVersionShift;
constexpr std::uint64_t kKeptVersion = (std::uint64_t{1} << 24) - 1;
constexpr int kSumShift = 25;

bool is_sealed(std::uint64_t word) { return (word & kSealed) != 0; }
std::uint64_t writers(std::uint64_t word) { return word & kMostWriters; }

std::uint64_t with_writer(std::uint64_t word) {
  if (is_sealed(word)) word = ((word >> 1) & kKeptVersion) << kVersionShift;
  return word + kOneVersion + (writers(word) < kMostWriters ? kOneWriter : 0);
}

std::uint64_t without_writer(std::uint64_t word) {
  const bool is_counted = !is_sealed(word) && writers(word) > 0 && writers(word) < kMostWriters;
  return is_counted ? word - kOneWriter : word;
}

std::uint64_t sealed(std::uint64_t word, std::uint64_t sum) {
  return kSealed | ((word >> kVersionShift) & kKeptVersion) << 1 | sum << kSumShift;
}

Offset clipped(Offset offset) { return std::clamp<Offset>(offset, 0, kSummedBytes); }

}  // namespace

BlockSet::BlockSet(Offset from, Offset to)
    : first_(clipped(from) / kBlockBytes),
      bytes_(static_cast<std::size_t>(std::max<Offset>(ceil_div(clipped(to), kBlockBytes) - first_, 0))) {}

BlockSet BlockSet::of(Offset from, Offset to) {
  BlockSet blocks(from, to);
  blocks.add(from, to);
  return blocks;
}

BlockSet BlockSet::touching(Offset from, Offset to) {
  BlockSet blocks(from, to);
  if (from < to) std::fill(blocks.bytes_.begin(), blocks.bytes_.end(), 1);
  return blocks;
}

void BlockSet::add(Offset from, Offset to) {
  to = clipped(to);
  for (Offset block = from / kBlockBytes; block * kBlockBytes < to; ++block) {
    const Offset bytes = std::min(to, (block + 1) * kBlockBytes) - std::max(from, block * kBlockBytes);
    bytes_[static_cast<std::size_t>(block - first_)] += static_cast<std::uint32_t>(bytes);
  }
}

BlockSums::BlockSums(std::byte* file, Offset room)
    : words_(reinterpret_cast<std::atomic<std::uint64_t>*>(file + kControlBytes)),
      data_(file + kDataStart),
      blocks_(std::min(room / kBlockBytes, kMostBlocks)) {}

std::uint64_t BlockSums::sum_of(Offset block) const {
  return XXH3_64bits(data_ + block * kBlockBytes, static_cast<std::size_t>(kBlockBytes)) >> kSumShift;
}

std::uint64_t BlockSums::word(Offset block) const { return words_[block].load(std::memory_order_relaxed); }

bool BlockSums::is_damaged(Offset block) const {
  const std::uint64_t before = words_[block].load(std::memory_order_acquire);
  if (!is_sealed(before)) return false;
  const std::uint64_t sum = sum_of(block);
  std::atomic_thread_fence(std::memory_order_acquire);  // the bytes before the word
  return sum != before >> kSumShift && word(block) == before;
}

void BlockSums::open(Offset block) const {
  std::uint64_t word = words_[block].load(std::memory_order_relaxed);
  while (!words_[block].compare_exchange_weak(word, with_writer(word), std::memory_order_acq_rel,
                                              std::memory_order_relaxed)) {
  }
}

void BlockSums::close(Offset block) const {
  std::uint64_t word = words_[block].load(std::memory_order_relaxed);
  while (!words_[block].compare_exchange_weak(word, without_writer(word), std::memory_order_release,
                                              std::memory_order_relaxed)) {
  }
}

std::optional<Offset> BlockSums::begin_write(const BlockSet& blocks) const {
  const Offset end = std::min(blocks.end(), blocks_);
  for (Offset block = blocks.begin(); block < end; ++block) {
    if (blocks.has(block) && !blocks.is_covered(block) && is_damaged(block)) return block;
  }
  for (Offset block = blocks.begin(); block < end; ++block) {
    if (blocks.has(block)) open(block);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the words before the bytes
  return std::nullopt;
}

void BlockSums::end_write(const BlockSet& blocks) const {
  const Offset end = std::min(blocks.end(), blocks_);
  for (Offset block = blocks.begin(); block < end; ++block) {
    if (blocks.has(block)) close(block);
  }
}

std::optional<Offset> BlockSums::find_damage(const BlockSet& blocks) const {
  const Offset end = std::min(blocks.end(), blocks_);
  for (Offset block = blocks.begin(); block < end; ++block) {
    if (blocks.has(block) && is_damaged(block)) return block;
  }
  return std::nullopt;
}

bool BlockSums::is_due(Offset block) const {
  if (block >= blocks_) return false;
  const std::uint64_t now = word(block);
  return now != 0 && !is_sealed(now) && writers(now) == 0;
}

void BlockSums::seal(Offset block) const {
  if (!is_due(block)) return;
  std::uint64_t before = words_[block].load(std::memory_order_acquire);
  if (is_sealed(before) || writers(before) > 0) return;
  const std::uint64_t sum = sum_of(block);
  std::atomic_thread_fence(std::memory_order_acquire);  // the bytes before the word
  words_[block].compare_exchange_strong(before, sealed(before, sum), std::memory_order_acq_rel,
                                        std::memory_order_relaxed);
}

}  // namespace weir::share
