#include <weir/storage/internal/memory_subfile.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <weir/base/text.h>

namespace weir::storage::internal {
namespace {

using share::BlockSet;

constexpr Offset kMostHeapBytes = Offset{64} << 10;
constexpr Offset kGrowthBytes = Offset{64} << 10;
/// Subfiles that are longer take room ahead.
constexpr Offset kLargeBytes = Offset{4} << 20;
constexpr Offset kMostAheadBytes = Offset{16} << 20;
/// A write after a hole of more than so many times its length makes the subfile sparse.
constexpr Offset kMostHoleShare = 3;

Offset size_of(std::span<const std::byte> memory) { return static_cast<Offset>(memory.size()); }

std::size_t to_size(Offset bytes) { return static_cast<std::size_t>(bytes); }

Offset heap_room(const std::vector<std::byte>& heap) { return static_cast<Offset>(heap.capacity()); }

}  // namespace

MemorySubfile::~MemorySubfile() { source_->room.give_back(taken_bytes()); }

void MemorySubfile::fence(bool is_fenced) {
  is_fenced_ = is_fenced;
  if (region_) region_->fence(is_fenced);
}

std::byte* MemorySubfile::near_data() const noexcept {
  return region_ ? region_->data() : const_cast<std::byte*>(heap_.data());
}

void MemorySubfile::read(Offset offset, std::span<std::byte> memory) const {
  const Offset near = std::clamp<Offset>(kMappableBytes - offset, 0, size_of(memory));
  read_near(offset, memory.first(to_size(near)));
  read_far(offset + near, memory.subspan(to_size(near)));
}

void MemorySubfile::read_near(Offset offset, std::span<std::byte> memory) const {
  Offset copied = 0;
  const auto fill = [&](Offset bytes, bool from_memory) {
    std::byte* target = memory.data() + copied;
    if (from_memory) {
      std::memcpy(target, near_data() + offset + copied, to_size(bytes));
    } else {
      std::memset(target, 0, to_size(bytes));
    }
    copied += bytes;
  };
  const Offset size = size_of(memory);
  if (!region_) {
    if (const Offset held = std::clamp<Offset>(static_cast<Offset>(heap_.size()) - offset, 0, size); held > 0)
      fill(held, true);
    if (copied < size) fill(size - copied, false);
    return;
  }
  // Holes are not touched: that would take room.
  while (copied < size) {
    Offset page = (offset + copied) / kPageBytes;
    const bool taken = region_->is_taken(page);
    while (page * kPageBytes < offset + size && region_->is_taken(page) == taken) ++page;
    fill(std::min(page * kPageBytes - offset, size) - copied, taken);
  }
}

void MemorySubfile::read_far(Offset offset, std::span<std::byte> memory) const {
  while (!memory.empty()) {
    const Offset within = offset % kGrowthBytes;
    const Offset bytes = std::min(kGrowthBytes - within, size_of(memory));
    const auto found = far_ ? far_->find(offset / kGrowthBytes) : std::map<Offset, Block>::iterator{};
    if (far_ && found != far_->end()) {
      std::memcpy(memory.data(), found->second.get() + within, to_size(bytes));
    } else {
      std::memset(memory.data(), 0, to_size(bytes));
    }
    offset += bytes;
    memory = memory.subspan(to_size(bytes));
  }
}

Status MemorySubfile::write(Offset offset, std::span<const std::byte> memory) {
  if (memory.empty()) return Status::ok();
  const Offset near = std::clamp<Offset>(kMappableBytes - offset, 0, size_of(memory));
  if (near > 0) {
    const bool is_new = !region_ || region_->missing_bytes(offset, offset + near) > 0;
    WEIR_RETURN_IF_ERROR(take_near(offset, offset + near));
    if (is_new && region_) region_->make_huge_pages(offset, offset + near);
    std::optional<BlockSet> blocks;
    if (is_verified_) WEIR_RETURN_IF_ERROR(declare(blocks.emplace(BlockSet::of(offset, offset + near))));
    std::memcpy(near_data() + offset, memory.data(), to_size(near));
    if (blocks) region_->sums().end_write(*blocks);
  }
  WEIR_RETURN_IF_ERROR(write_far(offset + near, memory.subspan(to_size(near))));
  raise_lengths(offset + size_of(memory), 0);
  return Status::ok();
}

Status MemorySubfile::write_far(Offset offset, std::span<const std::byte> memory) {
  WEIR_RETURN_IF_ERROR(take_far(offset, offset + size_of(memory)));
  while (!memory.empty()) {
    const Offset within = offset % kGrowthBytes;
    const Offset bytes = std::min(kGrowthBytes - within, size_of(memory));
    std::memcpy(far_->find(offset / kGrowthBytes)->second.get() + within, memory.data(), to_size(bytes));
    offset += bytes;
    memory = memory.subspan(to_size(bytes));
  }
  return Status::ok();
}

void MemorySubfile::note_written(Offset to, Offset file_end) {
  if (declared_) region_->sums().end_write(*declared_);
  declared_.reset();
  raise_lengths(to, file_end);
}

void MemorySubfile::raise_lengths(Offset to, Offset file_end) {
  length_ = std::max(length_, to);
  file_end_ = std::max(file_end_, file_end);
  if (region_) region_->raise_lengths({length_, file_end_});
}

SubfileInfo MemorySubfile::info() const {
  SubfileInfo info{.length = length_, .file_end = file_end_, .stored_bytes = taken_bytes()};
  if (region_) {
    const Region::Lengths raised = region_->lengths();
    info.length = std::max(info.length, raised.length);
    info.file_end = std::max(info.file_end, raised.file_end);
    // Room taken ahead has no pages before somebody writes there.
    if (const auto real = region_->real_bytes(); real && !far_) info.stored_bytes = *real;
  }
  return info;
}

Offset MemorySubfile::taken_bytes() const noexcept {
  const Offset near = region_ ? region_->taken_bytes() + kControlRoom : heap_room(heap_);
  return far_ ? near + static_cast<Offset>(far_->size()) * kGrowthBytes : near;
}

Status MemorySubfile::reserve(Offset from, Offset to) {
  const Offset near = std::min(to, kMappableBytes);
  if (from < near) {
    WEIR_RETURN_IF_ERROR(take_near(from, near));
  }
  return take_far(std::max(from, kMappableBytes), to);
}

Status MemorySubfile::take_near(Offset from, Offset to) {
  if (!region_ && to <= kMostHeapBytes) return take_heap(to);
  // Ready memory would fill a hole before the bytes: sparse subfiles stay sparse.
  const bool is_sparse = from - static_cast<Offset>(heap_.size()) > kMostHoleShare * (to - from);
  if (!region_) WEIR_RETURN_IF_ERROR(move_to_region(to, is_sparse ? 0 : to, Peers::kOwn));
  return take_region(from, to);
}

Status MemorySubfile::take_heap(Offset to) {
  const Offset now = heap_room(heap_);
  if (to > now) {
    // Exact at first, since most subfiles are written once; doubled when they grow.
    const Offset wanted = std::min(std::max(to, 2 * now), kMostHeapBytes);
    WEIR_RETURN_IF_ERROR(source_->room.take(wanted - now));
    heap_.reserve(to_size(wanted));
    source_->note_room();
  }
  if (to > static_cast<Offset>(heap_.size())) heap_.resize(to_size(to));
  return Status::ok();
}

Status MemorySubfile::take_region(Offset from, Offset to) {
  const Offset missing = region_->missing_bytes(from, to);
  if (missing == 0) return Status::ok();
  WEIR_RETURN_IF_ERROR(source_->room.take(missing));
  Status status = region_->grow(to);
  if (!status.is_ok()) return source_->room.give_back(missing), status;
  region_->take(from, to);
  take_ahead(from, to);
  source_->note_room();
  return Status::ok();
}

Status MemorySubfile::take_far(Offset from, Offset to) {
  if (from >= to) return Status::ok();
  const Offset first = from / kGrowthBytes;
  const Offset end = ceil_div(to, kGrowthBytes);
  const auto held = far_ ? std::distance(far_->lower_bound(first), far_->lower_bound(end)) : 0;
  WEIR_RETURN_IF_ERROR(source_->room.take((end - first - held) * kGrowthBytes));
  if (!far_) far_ = std::make_unique<std::map<Offset, Block>>();
  for (Offset block = first; block < end; ++block) {
    if (Block& memory = (*far_)[block]; !memory) memory = std::make_unique<std::byte[]>(to_size(kGrowthBytes));
  }
  source_->note_room();
  return Status::ok();
}

Status MemorySubfile::move_to_region(Offset bytes, Offset ready_bytes, Peers peers) {
  Room& room = source_->room;
  source_->pool.start();
  std::unique_ptr<Region> region;
  const bool may_be_ready =
      source_->takes_ahead && ready_bytes > 0 && room.free_bytes() / 4 > ready_bytes && peers == Peers::kOwn;
  if (may_be_ready) region = source_->pool.take(ready_bytes);
  const Offset held = static_cast<Offset>(heap_.size());
  if (region) {
    region->take(0, region->mapped_bytes());
  } else {
    WEIR_TRY(region, Region::make(std::min(bytes, kMappableBytes), peers));
    region->take(0, held);
  }
  WEIR_RETURN_IF_ERROR(room.take(kControlRoom + region->taken_bytes()));
  if (held > 0) std::memcpy(region->data(), heap_.data(), to_size(held));
  room.give_back(heap_room(heap_));
  heap_ = {};
  region_ = std::move(region);
  if (is_fenced_) fence(true);
  raise_lengths(length_, file_end_);
  return Status::ok();
}

/// A subfile that grows at its end will go on: room for the next part is taken now, so that its writers need not ask so
/// soon.  No more than a quarter of what it has, and only while the store is less than half full, so that it costs
/// nobody else room.
void MemorySubfile::take_ahead(Offset from, Offset to) {
  Room& room = source_->room;
  const Offset start = ceil_div(to, kChunkBytes) * kChunkBytes;
  const Offset bytes = std::min(start / 4 / kChunkBytes * kChunkBytes, kMostAheadBytes);
  const bool grows = from == 0 || region_->is_taken((from - 1) / kPageBytes);
  if (!source_->takes_ahead || !source_->pool.is_on() || !grows || to < kLargeBytes || region_->descriptor() < 0)
    return;
  if (start + bytes > region_->mapped_bytes() || room.used_bytes() + bytes > room.capacity_bytes() / 2) return;
  const Offset missing = region_->missing_bytes(to, start + bytes);
  if (missing < bytes || !room.take(missing).is_ok()) return;
  region_->take(to, start + bytes);
}

Status MemorySubfile::truncate(Offset length, Offset file_end) {
  if (length < info().length) {  // or else zeros follow already, in memory that may have been made ready
    std::optional<BlockSet> blocks;
    if (is_verified_) {
      WEIR_RETURN_IF_ERROR(declare(blocks.emplace(BlockSet::of(length, region_->mapped_bytes()))));
    }
    const Status status = cut_near(length);
    if (blocks) region_->sums().end_write(*blocks);
    WEIR_RETURN_IF_ERROR(status);
    cut_far(length);
    source_->note_room();
  }
  length_ = length;
  file_end_ = file_end;
  if (region_) region_->set_lengths({length, file_end});
  return Status::ok();
}

Status MemorySubfile::cut_near(Offset length) {
  if (!region_) {
    if (length >= static_cast<Offset>(heap_.size())) return Status::ok();
    const Offset before = heap_room(heap_);
    heap_.resize(to_size(length));
    heap_.shrink_to_fit();
    source_->room.give_back(before - heap_room(heap_));
    return Status::ok();
  }
  WEIR_TRY(const Offset freed, region_->cut(length));
  source_->room.give_back(freed);
  return Status::ok();
}

void MemorySubfile::cut_far(Offset length) {
  if (!far_) return;
  const auto first = far_->lower_bound(ceil_div(length, kGrowthBytes));
  source_->room.give_back(std::distance(first, far_->end()) * kGrowthBytes);
  far_->erase(first, far_->end());
  const Offset within = length % kGrowthBytes;
  if (const auto last = far_->find(length / kGrowthBytes); last != far_->end()) {
    std::memset(last->second.get() + within, 0, to_size(kGrowthBytes - within));
  }
}

std::optional<std::span<std::byte>> MemorySubfile::map(Offset from, Offset to, bool for_writing) {
  if (to > kMappableBytes) return std::nullopt;
  if (for_writing) {
    if (!take_near(from, to).is_ok()) return std::nullopt;  // write() may need less, and tells if not
  } else if (region_ ? region_->missing_bytes(from, to) > 0 : to > static_cast<Offset>(heap_.size())) {
    return std::nullopt;
  }
  return std::span{near_data() + from, to_size(to - from)};
}

Result<Region*> MemorySubfile::shared_region(Offset expected_bytes, Peers peers) {
  const Offset bytes = std::max(static_cast<Offset>(heap_.size()), expected_bytes);
  if (!region_) WEIR_RETURN_IF_ERROR(move_to_region(bytes, bytes, peers));
  if (source_->verifies && !is_verified_ && region_->descriptor() >= 0) {
    is_verified_ = true;
    // What nobody else could write until now.
    const BlockSet written = BlockSet::of(0, std::min(length_, region_->mapped_bytes()));
    WEIR_RETURN_IF_ERROR(declare(written));
    region_->sums().end_write(written);
    seal();
  }
  return region_.get();
}

// ---------------------------------------------------------------- checksums

Status MemorySubfile::begin_write(Offset from, Offset to, bool is_covered) {
  if (!is_verified_) return Status::ok();
  BlockSet blocks = is_covered ? BlockSet::of(from, to) : BlockSet::touching(from, to);
  WEIR_RETURN_IF_ERROR(declare(blocks));
  declared_ = std::move(blocks);
  return Status::ok();
}

Status MemorySubfile::declare(const BlockSet& blocks) {
  const std::optional<Offset> bad = region_->sums().begin_write(blocks);
  return bad ? damage(*bad) : Status::ok();
}

Status MemorySubfile::verify(const BlockSet& blocks) {
  if (!is_verified_) return Status::ok();
  const std::optional<Offset> bad = region_->sums().find_damage(blocks);
  return bad ? damage(*bad) : Status::ok();
}

Status MemorySubfile::damage(Offset block) {
  const Offset from = block * share::kBlockBytes;
  const std::uint64_t word = region_->sums().word(block);
  if (std::exchange(found_bad_[block], word) != word) ++source_->damaged_blocks;
  return corrupt(concat("bytes ", from, " to ", from + share::kBlockBytes,
                        " of the subfile changed after they were synced, and no write to the file did that: a process "
                        "on this host wrote to its mapped memory through a wild pointer; write these bytes again in "
                        "one piece, or restore the file, and look for the pointer with AddressSanitizer or Valgrind"));
}

void MemorySubfile::seal() {
  if (!is_verified_) return;
  const share::BlockSums sums = region_->sums();
  const Offset length = std::min({info().length, region_->mapped_bytes(), share::kSummedBytes});
  for (Offset block = 0; block * share::kBlockBytes < length; ++block) {
    const Offset from = block * share::kBlockBytes;
    const Offset to = from + share::kBlockBytes;
    if (!sums.is_due(block)) continue;
    // The checksum is that of a whole block; computing it makes pages that are missing.  Only at the end these are few.
    if (to >= length && region_->missing_bytes(from, to) < share::kBlockBytes) (void)take_region(from, to);
    if (region_->missing_bytes(from, to) == 0) sums.seal(block);
  }
}

}  // namespace weir::storage::internal
