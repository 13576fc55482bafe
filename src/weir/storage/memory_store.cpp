#include <weir/storage/memory_store.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include <weir/base/random_id.h>
#include <weir/base/text.h>
#include <weir/storage/internal/memory_subfile.h>
#include <weir/storage/shared_memory.h>

namespace weir::storage {
namespace {

using internal::MemorySource;
using internal::MemorySubfile;

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

/// A descriptor that is closed in the end.
class Lent {
 public:
  ~Lent() { reset(-1); }
  int reset(int descriptor) {
    if (descriptor_ >= 0) close(descriptor_);
    return descriptor_ = descriptor;
  }

 private:
  int descriptor_ = -1;
};

class MemoryStore final : public Store {
 public:
  MemoryStore(Offset capacity_bytes, internal::PoolOptions pool, bool is_eager)
      : source_{internal::Room{capacity_bytes}, internal::Pool{pool}} {
    if (!is_eager) return;
    source_.pool.start();
    source_.note_room();
  }

  Status read(SubfileId id, std::span<const ReadPiece> pieces) override {
    WEIR_RETURN_IF_ERROR(check_pieces("read", id, pieces));
    const MemorySubfile* subfile = find(id);
    for (const ReadPiece& piece : pieces) {
      if (subfile != nullptr) {
        subfile->read(piece.offset, piece.memory);
      } else {
        std::fill(piece.memory.begin(), piece.memory.end(), std::byte{0});
      }
    }
    return Status::ok();
  }

  Status write(SubfileId id, std::span<const WritePiece> pieces, Offset file_end) override {
    WEIR_RETURN_IF_ERROR(check_pieces("write", id, pieces));
    WEIR_RETURN_IF_ERROR(check_range("write", id, 0, file_end));
    MemorySubfile& subfile = make(id);
    for (const WritePiece& piece : pieces)
      WEIR_RETURN_IF_ERROR(about("write", id, subfile.write(piece.offset, piece.memory)));
    subfile.note_written(0, file_end);
    return Status::ok();
  }

  Status truncate(SubfileId id, Offset length, Offset file_end) override {
    WEIR_RETURN_IF_ERROR(check_range("truncate", id, 0, length));
    WEIR_RETURN_IF_ERROR(check_range("truncate", id, 0, file_end));
    if (length == 0 && file_end == 0 && find(id) == nullptr) return Status::ok();
    return about("truncate", id, make(id).truncate(length, file_end));
  }

  Status reserve(SubfileId id, Offset from, Offset to) override {
    WEIR_RETURN_IF_ERROR(check_range("reserve", id, from, to));
    return from == to ? Status::ok() : about("reserve", id, make(id).reserve(from, to));
  }

  /// Memory survives no crash: there is nothing to do.
  Status sync(SubfileId id) override {
    (void)id;
    return Status::ok();
  }

  Result<SubfileInfo> info(SubfileId id) override {
    const MemorySubfile* subfile = find(id);
    return subfile != nullptr ? subfile->info() : SubfileInfo{};
  }

  Status remove(SubfileId id) override {
    subfiles_.erase(id);
    return Status::ok();
  }

  Result<Usage> usage() override {
    return Usage{.capacity_bytes = source_.room.capacity_bytes(),
                 .used_bytes = source_.room.used_bytes(),
                 .subfiles = static_cast<Offset>(subfiles_.size())};
  }

  Result<std::vector<SubfileId>> list() override {
    std::vector<SubfileId> ids;
    ids.reserve(subfiles_.size());
    for (const auto& entry : subfiles_) ids.push_back(entry.first);
    return ids;
  }

  Result<std::optional<std::span<std::byte>>> map(SubfileId id, Offset from, Offset to, bool for_writing) override {
    WEIR_RETURN_IF_ERROR(check_range("map", id, from, to));
    if (for_writing) return make(id).map(from, to, true);
    MemorySubfile* subfile = find(id);
    return subfile != nullptr ? subfile->map(from, to, false) : std::nullopt;
  }

  void note_written(SubfileId id, Offset to, Offset file_end) override {
    if (MemorySubfile* subfile = find(id)) subfile->note_written(to, file_end);
  }

  void fence(SubfileId id, bool is_fenced) override {
    if (is_fenced || find(id) != nullptr) make(id).fence(is_fenced);
  }

  [[nodiscard]] std::uint64_t id() const override { return id_; }

  Result<std::optional<SharedMemory>> share(SubfileId id, bool for_writing, Offset expected_bytes,
                                            Peers peers) override {
    WEIR_RETURN_IF_ERROR(check_range("share", id, 0, expected_bytes));
    auto shared = make(id).shared_region(expected_bytes, peers);
    if (!shared.is_ok()) return about("share", id, shared.status());
    internal::Region* region = *shared;
    // Whoever may write to a file that is not sealed can make it shorter, which would kill all who read it.
    const bool is_safe = region != nullptr && (peers == Peers::kOwn || !for_writing || region->is_sealed());
    if (!is_safe) return std::optional<SharedMemory>{};
    if (for_writing) return std::optional{SharedMemory{region->descriptor(), region->mapped_bytes()}};
    // A peer that may only read gets a descriptor that can only be read.
    const std::string name = concat("/proc/self/fd/", region->descriptor());
    const int descriptor = lent_.reset(open(name.c_str(), O_RDONLY | O_CLOEXEC));
    if (descriptor < 0) return std::optional<SharedMemory>{};
    return std::optional{SharedMemory{descriptor, region->mapped_bytes()}};
  }

 private:
  MemorySubfile* find(SubfileId id) {
    const auto found = subfiles_.find(id);
    return found == subfiles_.end() ? nullptr : &found->second;
  }
  MemorySubfile& make(SubfileId id) { return subfiles_.try_emplace(id, source_).first->second; }

  const std::uint64_t id_ = random_id();
  MemorySource source_;
  std::map<SubfileId, MemorySubfile> subfiles_;  // after source_: gives room back when it goes
  Lent lent_;
};

Offset half_of_memory() { return Offset{sysconf(_SC_PHYS_PAGES)} / 2 * sysconf(_SC_PAGESIZE); }

}  // namespace

int pool_regions_for(Offset bytes, Offset region_bytes) {
  const Offset sizes = std::accumulate(std::begin(internal::kRegionSizes), std::end(internal::kRegionSizes), Offset{0});
  return region_bytes > 0 ? static_cast<int>(std::clamp<Offset>(bytes / (sizes * region_bytes), 0, 1024)) : 0;
}

Result<std::unique_ptr<Store>> make_memory_store(const MemoryStoreOptions& options) {
  const Offset most_region = internal::kMappableBytes / *std::rbegin(internal::kRegionSizes);
  if (options.capacity_bytes < 0 || options.pool_regions < 0 || options.pool_region_bytes < 0 ||
      options.pool_region_bytes > most_region) {
    return invalid_argument(concat("memory store: capacity of ", options.capacity_bytes, " bytes, pool of ",
                                   options.pool_regions, " regions of each size from ", options.pool_region_bytes,
                                   " bytes: none may be negative, no region above ", most_region));
  }
  const Offset region_bytes = ceil_div(options.pool_region_bytes, kChunkBytes) * kChunkBytes;
  const internal::PoolOptions pool{region_bytes > 0 ? options.pool_regions : 0, region_bytes};
  const Offset capacity = options.capacity_bytes > 0 ? options.capacity_bytes : half_of_memory();
  return std::unique_ptr<Store>{new MemoryStore{capacity, pool, options.is_eager}};
}

}  // namespace weir::storage
