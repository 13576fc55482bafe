#include <weir/share/region.h>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>

#include <weir/base/huge_pages.h>
#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/share/internal/memory_files.h>

namespace weir::share {
namespace {

using internal::MemoryFile;

constexpr Offset kPagesPerChunk = kChunkBytes / kPageBytes;
constexpr Offset kWordsPerChunk = kPagesPerChunk / 64;

/// Descriptors of all regions of this process: a quarter of those allowed is left for files and connections.
std::atomic<Offset> open_descriptors{0};

Offset most_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  const auto most = static_cast<Offset>(std::min<rlim_t>(limit.rlim_cur, rlim_t{1} << 40));
  return most - most / 4;
}

Status system_error(const char* call, Offset bytes) {
  return os_error(ErrorCode::kIoError, concat("memory of a subfile: ", call, " of ", bytes, " bytes"));
}

int retry_fallocate(int descriptor, int mode, Offset from, Offset to) {
  return uninterrupted([&] { return fallocate(descriptor, mode, from, to - from); });
}

void close_counted(int descriptor) {
  close(descriptor);
  --open_descriptors;
}

MemoryFile make_counted(Peers peers) {
  MemoryFile file;
  if (++open_descriptors <= most_descriptors()) file = internal::make_memory_file(peers);
  if (!file.descriptor.is_open()) --open_descriptors;
  return file;
}

/// A peer may have made the file longer than it should be: then that is how long it is.
Status lengthen(int descriptor, Offset bytes) {
  struct stat now {};
  if (fstat(descriptor, &now) == 0 && now.st_size >= bytes) return Status::ok();
  return ftruncate(descriptor, bytes) == 0 ? Status::ok() : system_error("ftruncate", bytes);
}

/// Writes zeros to the next bytes of [at, total), as many as a huge page has.
ssize_t write_some_zeros(int descriptor, Offset at, Offset total) {
  static std::array<std::byte, 65536> zeros;  // stays in the caches
  std::array<iovec, kHugePageBytes / sizeof zeros> parts;
  std::size_t count = 0;
  for (Offset left = total - at; left > 0 && count < parts.size(); ++count) {
    parts[count] = {zeros.data(), static_cast<std::size_t>(std::min<Offset>(left, sizeof zeros))};
    left -= static_cast<Offset>(parts[count].iov_len);
  }
  return pwritev(descriptor, parts.data(), static_cast<int>(count), at);
}

/// Makes every page of a new file, from `from` to `total`.  A small page that is made by touching it keeps other
/// threads from mapping anything, which lasts if the thread that does it is in no hurry; one that is made by writing to
/// it keeps nobody waiting.
Status make_pages(int descriptor, bool is_huge, Offset from, Offset total) {
  constexpr auto kHuge = static_cast<Offset>(kHugePageBytes);
  WEIR_RETURN_IF_ERROR(lengthen(descriptor, total));
  for (Offset at = from; at < total;) {
    const bool may_be_huge = is_huge && at % kHuge == 0 && at + kHuge <= total;
    if (may_be_huge && HugePages::here().is_worth_asking() && HugePages::here().make(descriptor, at)) {
      at += kHuge;
      continue;
    }
    const Offset end = std::min(total, (at / kHuge + 1) * kHuge);
    const ssize_t written = uninterrupted([&] { return write_some_zeros(descriptor, at, end); });
    if (written <= 0) return system_error("pwrite", end - at);
    at += written;
  }
  return Status::ok();
}

/// A number that a peer wrote: counts only if it can be true.
Offset believable(const std::atomic<Offset>& value, Offset most) {
  const Offset seen = value.load(std::memory_order_acquire);
  return 0 <= seen && seen <= most ? seen : 0;
}

/// MAP_FAILED if it cannot be longer.
void* move_mapping(void* base, Offset bytes, Offset wanted, int descriptor) {
#if defined(__SANITIZE_THREAD__)
  // The thread sanitizer knows of mmap and munmap only: what moves otherwise looks as if it were still in use.
  if (descriptor >= 0) {
    void* other = mmap(nullptr, static_cast<std::size_t>(wanted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                       descriptor, 0);
    if (other != MAP_FAILED) munmap(base, static_cast<std::size_t>(bytes));
    return other;
  }
#else
  (void)descriptor;
#endif
  return mremap(base, static_cast<std::size_t>(bytes), static_cast<std::size_t>(wanted), MREMAP_MAYMOVE);
}

std::uint64_t bits(Offset from, Offset to) {
  const std::uint64_t below_to = to == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1;
  return below_to & ~((std::uint64_t{1} << from) - 1);
}

/// Calls visit(word, mask) for the words that hold [first, end).
template <typename Visit>
void for_words(Offset first, Offset end, Visit visit) {
  for (Offset word = first / 64; word * 64 < end; ++word) {
    visit(static_cast<std::size_t>(word),
          bits(std::max<Offset>(first - word * 64, 0), std::min<Offset>(end - word * 64, 64)));
  }
}

void clear_bits(std::atomic<std::uint64_t>* all, Offset first, Offset end) {
  for_words(first, end, [&](std::size_t word, std::uint64_t mask) {
    // Reading a page of Control that does not exist makes it: look before writing.
    if ((all[word].load(std::memory_order_relaxed) & mask) != 0) all[word].fetch_and(~mask, std::memory_order_release);
  });
}

}  // namespace

Region::Region(Peers peers) {
  MemoryFile file = make_counted(peers);
  descriptor_ = file.descriptor.release();
  is_sealed_ = file.is_sealed;
  is_huge_ = file.is_huge;
}

Result<std::unique_ptr<Region>> Region::make(Offset bytes, Peers peers) {
  std::unique_ptr<Region> region{new Region(peers)};
  WEIR_RETURN_IF_ERROR(region->map_new(ceil_div(bytes, kChunkBytes) * kChunkBytes));
  return region;
}

Result<std::unique_ptr<Region>> Region::make_ready(Offset bytes) {
  const Offset rounded = ceil_div(bytes, kChunkBytes) * kChunkBytes;
  std::unique_ptr<Region> region{new Region(Peers::kOwn)};
  if (region->descriptor_ >= 0) {
    WEIR_RETURN_IF_ERROR(make_pages(region->descriptor_, region->is_huge_, kDataStart, kDataStart + rounded));
  }
  WEIR_RETURN_IF_ERROR(region->map_new(rounded));
  for (Offset chunk = 0; chunk * kChunkBytes < rounded; ++chunk) note_made(region->control(), chunk);
  return region;
}

Region::~Region() {
  if (base_ != nullptr) {
    control().state.store(Control::kGone, std::memory_order_release);
    munmap(base_, static_cast<std::size_t>(kDataStart + mapped_));
  }
  if (descriptor_ >= 0) close_counted(descriptor_);
}

Status Region::map_new(Offset bytes) {
  const Offset total = kDataStart + bytes;
  if (descriptor_ >= 0) WEIR_RETURN_IF_ERROR(lengthen(descriptor_, total));
  const int flags = descriptor_ >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* base =
      mmap(nullptr, static_cast<std::size_t>(total), PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, descriptor_, 0);
  if (base == MAP_FAILED) return system_error("mmap", total);
  base_ = static_cast<std::byte*>(base);
  mapped_ = bytes;
  control().mapped_bytes.store(bytes, std::memory_order_release);
  if (is_huge_) control().huge = HugePages::here().are_slow() ? Control::kSlowHugePages : Control::kHugePages;
  control().state.store(Control::kServing, std::memory_order_release);
  return Status::ok();
}

Status Region::grow(Offset bytes) {
  if (bytes <= mapped_) return Status::ok();
  const Offset wanted = std::min(std::max(ceil_div(bytes, kChunkBytes) * kChunkBytes, 2 * mapped_), kMappableBytes);
  const Offset total = kDataStart + wanted;
  if (descriptor_ >= 0) WEIR_RETURN_IF_ERROR(lengthen(descriptor_, total));
  void* base = move_mapping(base_, kDataStart + mapped_, total, descriptor_);
  if (base == MAP_FAILED) return system_error("mremap", total);
  base_ = static_cast<std::byte*>(base);
  mapped_ = wanted;
  control().mapped_bytes.store(wanted, std::memory_order_release);
  return Status::ok();
}

Offset Region::count_taken(Offset first_page, Offset end_page) const noexcept {
  Offset taken = 0;
  end_page = std::min(end_page, static_cast<Offset>(pages_.size()) * 64);
  for_words(first_page, end_page,
            [&](std::size_t word, std::uint64_t mask) { taken += std::popcount(pages_[word] & mask); });
  return taken;
}

Offset Region::missing_bytes(Offset from, Offset to) const noexcept {
  const Offset first = from / kPageBytes;
  const Offset end = ceil_div(to, kPageBytes);
  return from < to ? (end - first - count_taken(first, end)) * kPageBytes : 0;
}

bool Region::is_chunk_taken(Offset chunk) const noexcept {
  return count_taken(chunk * kPagesPerChunk, (chunk + 1) * kPagesPerChunk) == kPagesPerChunk;
}

void Region::take(Offset from, Offset to) {
  const Offset missing = missing_bytes(from, to);
  if (missing == 0) return;
  const Offset end_chunk = ceil_div(to, kChunkBytes);
  const auto words = static_cast<std::size_t>(end_chunk * kWordsPerChunk);
  if (pages_.size() < words) pages_.resize(words);
  for_words(from / kPageBytes, ceil_div(to, kPageBytes),
            [&](std::size_t word, std::uint64_t mask) { pages_[word] |= mask; });
  taken_pages_ += missing / kPageBytes;
  for (Offset chunk = from / kChunkBytes; chunk < end_chunk; ++chunk) {
    set_bit(control().touched, chunk);
    if (is_chunk_taken(chunk)) set_bit(control().full, chunk);
  }
}

void Region::make_huge_pages(Offset from, Offset to) {
  constexpr auto kHuge = static_cast<Offset>(kHugePageBytes);
  if (!is_huge_) return;
  for (Offset at = ceil_div(from, kHuge) * kHuge; at + kHuge <= to; at += kHuge) {
    if (!HugePages::here().is_worth_asking() || !HugePages::here().make(descriptor_, kDataStart + at)) return;
  }
}

std::optional<Offset> Region::real_bytes() const noexcept {
  struct stat now {};
  if (descriptor_ < 0 || fstat(descriptor_, &now) != 0) return std::nullopt;
  return Offset{now.st_blocks} * 512;
}

Status Region::zero_and_free(Offset from, Offset to) {
  if (descriptor_ >= 0) {
    if (retry_fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kDataStart + from, kDataStart + to) ==
        0)
      return Status::ok();
    return system_error("fallocate(FALLOC_FL_PUNCH_HOLE)", to - from);
  }
  if (madvise(data() + from, static_cast<std::size_t>(to - from), MADV_DONTNEED) == 0) return Status::ok();
  return system_error("madvise(MADV_DONTNEED)", to - from);
}

Result<Offset> Region::cut(Offset length) {
  if (length >= mapped_) return Offset{0};
  const Offset first = ceil_div(length, kPageBytes);
  const Offset known = static_cast<Offset>(pages_.size()) * 64;
  if (is_taken(length / kPageBytes)) {
    std::memset(data() + length, 0, static_cast<std::size_t>(first * kPageBytes - length));
  }
  if (first >= known) return Offset{0};
  clear_bits(control().full, first / kPagesPerChunk, known / kPagesPerChunk);
  // All that is mapped, not just what is known: a peer may have touched what it should not.
  WEIR_RETURN_IF_ERROR(zero_and_free(first * kPageBytes, mapped_));
  clear_bits(control().touched, ceil_div(first, kPagesPerChunk), known / kPagesPerChunk);
  const Offset first_hint = std::min(first / kPagesPerChunk, kClaimableChunks);
  const Offset end_hint = std::min(known / kPagesPerChunk, kClaimableChunks);
  clear_bits(control().claimed, first_hint, end_hint);
  clear_bits(control().made, first_hint, end_hint);
  const Offset freed = count_taken(first, known);
  for_words(first, known, [&](std::size_t word, std::uint64_t mask) { pages_[word] &= ~mask; });
  taken_pages_ -= freed;
  return freed * kPageBytes;
}

void Region::fence(bool is_fenced) {
  control().state.store(is_fenced ? Control::kFenced : Control::kServing, std::memory_order_release);
  take_turn(control());
}

Region::Lengths Region::lengths() const noexcept {
  return {believable(control().length, mapped_), believable(control().file_end, kMaxBytes)};
}

void Region::raise_lengths(Lengths to) noexcept {
  raise(control().length, to.length);
  raise(control().file_end, to.file_end);
}

void Region::set_lengths(Lengths to) noexcept {
  control().length.store(to.length, std::memory_order_release);
  control().file_end.store(to.file_end, std::memory_order_release);
}

}  // namespace weir::share
