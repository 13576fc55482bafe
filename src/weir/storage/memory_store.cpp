#include <weir/storage/memory_store.h>

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <weir/base/descriptor.h>
#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/share/handover.h>
#include <weir/storage/internal/immediate_store.h>
#include <weir/storage/internal/memory_subfile.h>

namespace weir::storage {
namespace {

using internal::MemorySource;
using internal::MemorySubfile;
using share::BlockSet;

/// Says of which subfile and operation an error is.
Status about(const char* operation, SubfileId id, const Status& status) {
  if (status.is_ok()) return status;
  return {status.code(), concat(operation, " of subfile ", id.file, ".", id.element, ": ", status.message()),
          status.location()};
}

Status check_range(const char* operation, SubfileId id, Offset from, Offset to) {
  if (0 <= from && from <= to && to <= kMaxBytes) return Status::ok();
  return about(operation, id, out_of_range(concat("bytes ", from, " to ", to, " are not within 0 and 2^62")));
}

template <typename Piece>
Status check_pieces(const char* operation, SubfileId id, std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    const auto size = static_cast<Offset>(piece.memory.size());
    const bool fits = 0 <= piece.offset && piece.offset <= kMaxBytes && size <= kMaxBytes - piece.offset;
    if (!fits)
      return about(operation, id, out_of_range(concat(size, " bytes at ", piece.offset, " are not within 0 and 2^62")));
  }
  return Status::ok();
}

BlockSet blocks_of(std::span<const ReadPiece> pieces) {
  Offset from = kMaxBytes;
  Offset to = 0;
  const auto end_of = [](const ReadPiece& piece) { return piece.offset + static_cast<Offset>(piece.memory.size()); };
  for (const ReadPiece& piece : pieces) from = std::min(from, piece.offset), to = std::max(to, end_of(piece));
  BlockSet blocks(from, to);
  for (const ReadPiece& piece : pieces) blocks.add(piece.offset, end_of(piece));
  return blocks;
}

class MemoryStore final : public internal::ImmediateStore {
 public:
  MemoryStore(const MemoryStoreOptions& options, Offset capacity_bytes, const internal::PoolOptions& pool)
      : id_(pool.runtime.random->id()),
        source_{internal::Room{capacity_bytes}, internal::Pool{pool}, options.verifies} {
    if (!options.is_eager) return;
    source_.pool.start();
    source_.note_room();
  }

  [[nodiscard]] Capabilities capabilities() const override {
    return {.mappable = true, .shareable = true, .verifies = source_.verifies};
  }
  [[nodiscard]] std::uint64_t damaged_blocks() const override { return source_.damaged_blocks; }

  Result<std::optional<std::span<std::byte>>> map(SubfileId id, Offset from, Offset to, bool for_writing) override {
    WEIR_RETURN_IF_ERROR(check_range("map", id, from, to));
    if (for_writing) return make(id).map(from, to, true);
    MemorySubfile* subfile = find(id);
    if (subfile == nullptr) return std::optional<std::span<std::byte>>{};
    WEIR_RETURN_IF_ERROR(tell("read", id, subfile->verify(BlockSet::of(from, to))));
    return subfile->map(from, to, false);
  }

  Status begin_write(SubfileId id, Offset from, Offset to, bool is_covered) override {
    MemorySubfile* subfile = find(id);
    return subfile != nullptr ? tell("write", id, subfile->begin_write(from, to, is_covered)) : Status::ok();
  }

  void note_written(SubfileId id, Offset to, Offset file_end) override {
    if (MemorySubfile* subfile = find(id)) subfile->note_written(to, file_end);
  }

  void allow_ahead(bool is_allowed) override { source_.takes_ahead = is_allowed; }

  void fence(SubfileId id, bool is_fenced) override {
    if (is_fenced || find(id) != nullptr) make(id).fence(is_fenced);
  }

  [[nodiscard]] std::uint64_t id() const override { return id_; }

  Result<std::optional<share::SharedMemory>> share(SubfileId id, bool for_writing, Offset expected_bytes,
                                                   share::Peers peers) override {
    WEIR_RETURN_IF_ERROR(check_range("share", id, 0, expected_bytes));
    const auto region = make(id).shared_region(expected_bytes, peers);
    if (!region.is_ok()) return about("share", id, region.status());
    int descriptor = (*region)->descriptor();
    if (!(*region)->can_be_shared(for_writing, peers)) return std::optional<share::SharedMemory>{};
    if (!for_writing) {
      lent_ = share::reopen_for_reading(descriptor);
      if (!lent_.is_open()) return std::optional<share::SharedMemory>{};
      descriptor = lent_.get();
    }
    return std::optional{share::SharedMemory{descriptor, (*region)->mapped_bytes()}};
  }

 private:
  Status run(op::Any& operation) override {
    return std::visit([this](auto& what) { return run(what); }, operation);
  }

  Status run(const op::Read& read) {
    WEIR_RETURN_IF_ERROR(check_pieces("read", read.id, std::span(read.pieces)));
    MemorySubfile* subfile = find(read.id);
    for (const ReadPiece& piece : read.pieces) {
      if (subfile != nullptr) {
        subfile->read(piece.offset, piece.memory);
      } else {
        std::fill(piece.memory.begin(), piece.memory.end(), std::byte{0});
      }
    }
    const bool is_verified = subfile != nullptr && subfile->is_verified();
    return is_verified ? tell("read", read.id, subfile->verify(blocks_of(read.pieces))) : Status::ok();
  }

  Status run(const op::Write& write) {
    WEIR_RETURN_IF_ERROR(check_pieces("write", write.id, std::span(write.pieces)));
    WEIR_RETURN_IF_ERROR(check_range("write", write.id, 0, write.file_end));
    MemorySubfile& subfile = make(write.id);
    for (const WritePiece& piece : write.pieces)
      WEIR_RETURN_IF_ERROR(tell("write", write.id, subfile.write(piece.offset, piece.memory)));
    subfile.note_written(0, write.file_end);
    return Status::ok();
  }

  Status run(const op::Truncate& truncate) {
    const auto& [id, length, file_end] = truncate;
    WEIR_RETURN_IF_ERROR(check_range("truncate", id, 0, length));
    WEIR_RETURN_IF_ERROR(check_range("truncate", id, 0, file_end));
    if (length == 0 && file_end == 0 && find(id) == nullptr) return Status::ok();
    return tell("truncate", id, make(id).truncate(length, file_end));
  }

  Status run(const op::Reserve& reserve) {
    const auto& [id, from, to] = reserve;
    WEIR_RETURN_IF_ERROR(check_range("reserve", id, from, to));
    return from == to ? Status::ok() : about("reserve", id, make(id).reserve(from, to));
  }

  Status run(op::Info& info) {
    if (const MemorySubfile* subfile = find(info.id)) info.result = subfile->info();
    return Status::ok();
  }

  Status run(const op::Sync& sync) {
    if (MemorySubfile* subfile = find(sync.id)) subfile->seal();
    return Status::ok();
  }

  Status run(const op::Remove& remove) {
    subfiles_.erase(remove.id);
    return Status::ok();
  }

  Status run(op::GetUsage& usage) {
    usage.result = {.capacity_bytes = source_.room.capacity_bytes(),
                    .used_bytes = source_.room.used_bytes(),
                    .subfiles = static_cast<Offset>(subfiles_.size())};
    return Status::ok();
  }

  Status run(op::StoredBytes& stored) {
    stored.result = source_.room.used_bytes();
    return Status::ok();
  }

  Status run(op::List& list) {
    for (const auto& entry : subfiles_) list.result.push_back(entry.first);
    return Status::ok();
  }

  /// Memory survives no crash: no fences, label or sidecars to keep.
  template <typename Other>
  Status run(const Other&) {
    return Status::ok();
  }

  /// about(); damage that was not known is logged.
  Status tell(const char* operation, SubfileId id, const Status& status) {
    Status told = about(operation, id, status);
    if (std::exchange(told_, source_.damaged_blocks) != source_.damaged_blocks) {
      WEIR_LOG_ERROR("memory store: {}", told.message());
    }
    return told;
  }

  MemorySubfile* find(SubfileId id) {
    const auto found = subfiles_.find(id);
    return found == subfiles_.end() ? nullptr : &found->second;
  }
  MemorySubfile& make(SubfileId id) { return subfiles_.try_emplace(id, source_).first->second; }

  const std::uint64_t id_;
  MemorySource source_;
  std::map<SubfileId, MemorySubfile> subfiles_;  // after source_: gives room back when it goes
  std::uint64_t told_ = 0;                       // damaged blocks
  Descriptor lent_;                              // for reading; until the next one
};

Offset half_of_memory() { return Offset{sysconf(_SC_PHYS_PAGES)} / 2 * sysconf(_SC_PAGESIZE); }

}  // namespace

int pool_regions_for(Offset bytes, Offset region_bytes) {
  const Offset sizes = std::accumulate(std::begin(internal::kRegionSizes), std::end(internal::kRegionSizes), Offset{0});
  return region_bytes > 0 ? static_cast<int>(std::clamp<Offset>(bytes / (sizes * region_bytes), 0, 1024)) : 0;
}

Result<std::unique_ptr<Store>> make_memory_store(const MemoryStoreOptions& options) {
  const Offset most_region = share::kMappableBytes / *std::rbegin(internal::kRegionSizes);
  if (options.capacity_bytes < 0 || options.pool_regions < 0 || options.pool_region_bytes < 0 ||
      options.pool_region_bytes > most_region) {
    return invalid_argument(concat("memory store: capacity of ", options.capacity_bytes, " bytes, pool of ",
                                   options.pool_regions, " regions of each size from ", options.pool_region_bytes,
                                   " bytes: none may be negative, no region above ", most_region));
  }
  const Offset region_bytes = ceil_div(options.pool_region_bytes, share::kChunkBytes) * share::kChunkBytes;
  const internal::PoolOptions pool{region_bytes > 0 ? options.pool_regions : 0, region_bytes, options.runtime};
  const Offset capacity = options.capacity_bytes > 0 ? options.capacity_bytes : half_of_memory();
  return std::unique_ptr<Store>{new MemoryStore{options, capacity, pool}};
}

}  // namespace weir::storage
