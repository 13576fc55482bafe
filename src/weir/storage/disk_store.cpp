#include <weir/storage/disk_store.h>

// What a crash leaves.  Either the process is killed, then the system still has all it wrote; or the power fails, then
// of everything written since the last fdatasync any 512 bytes may be old or new, in any mixture.  In both cases:
//
//   - what was synced and not written since reads back, verified unless an overwrite had cleared sums ahead (Write, step 1);
//   - a block (16 KiB) written since its last sync holds old or new bytes or a mixture, and reading it is no error;
//   - the length and the end of the file are those of the last sync, or later ones;
//   - opening the store never fails because of it.
//
// The rule behind it: while a block on disk may differ from what was synced, the file with the sums holds no sum for
// it, durably.
//
// Write
//   1. Sums of the blocks to be written are cleared in the file, fdatasync.  Only if they are there: once per block and sync.  Those
//      of blocks behind them are cleared along with them, up to 512 MiB, so that overwriting in sequence takes few waits.
//      Crash: the block is as before, but not verified any more.
//   2. The data is written.  Crash: a mixture, without a sum.  A file that gets longer by direct writes gets its length first, so that they
//      need not wait for each other.  Crash: zeros at its end, without a sum.  If they fail, it gets its old length again.
//   3. The new sums are kept in memory.  Those of blocks written in part are not known yet.
//
// Sync
//   1. Blocks with unknown sums are read back and summed.
//   2. If the file with the sums is too short: ftruncate.  Crash: it is longer than its header says; cut when next opened.
//   3. fdatasync of the data, and of the file with the sums if it got longer.  Crash: all new bytes, without sums.
//   4. fsync of the folder, if the files are new; fsync of the directory, if the folder is.
//      Crash: both files are there, or none, or only the sums, whose header does not speak of data yet.
//   5. Sums, and the header with the new lengths into the slot that is not in use; fdatasync.
//      Crash: any of the sums may be there, which is fine, as they are right.  Those behind the length in the header that counts are
//      cleared when the subfile is next opened.  A torn header has a wrong checksum, and the other one counts.
//   DiskPart 0 of a subfile comes last, as it holds the length of the whole.
//   Nothing else happens to the subfile meanwhile: OperationOrder sees to that, and that no two operations in flight
//   share a block that one of them writes.
//
// Truncate
//   1. If sums of blocks to be cut are in the file: they are cleared in the last page that stays, the header gets the new length;
//      fdatasync.  Crash: the data is all there, and longer than the header says: it counts, unverified, as if written after a sync.
//   2. The data is cut.  3. The sums are cut.  Crash: sums behind the length in the header are cleared when next opened.
//   Parts behind the new length are removed, the last one first; the next sync makes that durable by an fsync of the folder.
//
// Create:  sums (empty), then data (empty).  Crash: an empty file with sums means that nothing was synced yet.  Remove:
// the sums are renamed to .gone, the data is removed, then .gone.  Crash: data and .gone are removed when the
// subfile is next used.  Sums without data, or data without sums or .gone, are damage and reported as such.
//
// About (what is known of the file): written to .draft, then renamed to .empty, or to .about if the subfile was
// written.  One that replaces another is synced before it gets its name; a new one is synced by the next Sync, before
// step 5.  Crash: the old one, the new one, or a torn new one, which its checksum shows.  Create renames .empty to
// .about, last, so .about without data and sums is damage: both are gone.  Remove begins with it.  Crash: bytes of
// which nothing is known.

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <map>
#include <set>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include <weir/log/log.h>
#include <weir/storage/internal/disk_about.h>
#include <weir/storage/internal/disk_directory.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/internal/disk_part.h>
#include <weir/storage/internal/disk_thread.h>

namespace weir::storage {
namespace {

using internal::DiskContext;
using internal::DiskDirectory;
using internal::DiskPart;
using internal::FileKind;
using internal::FileName;
using internal::PartName;
using Bytes = std::vector<std::byte>;

// From so many on, syncing the whole file system is cheaper than one file after the other.
constexpr std::size_t kManyParts = 8;

constexpr std::size_t kMostUnsyncedAbouts = 100'000;

Status check_file_end(std::string_view operation, SubfileId id, Offset file_end) {
  if (file_end >= 0 && file_end <= kMaxBytes) return Status::ok();
  return out_of_range(fmt::format("{} {}: an end of the file at {} leaves the range of file offsets (2^62 bytes)",
                                  operation, internal::describe(id), file_end));
}

template <typename Piece>
Status check_pieces(std::string_view operation, SubfileId id, std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    if (piece.offset >= 0 && piece.offset <= kMaxBytes - static_cast<Offset>(piece.memory.size())) continue;
    return out_of_range(fmt::format("{} {}: {} bytes at {} leave the range of file offsets (2^62 bytes)", operation,
                                    internal::describe(id), piece.memory.size(), piece.offset));
  }
  return Status::ok();
}

/// The subfiles of a store.  Operations that conflict are never in flight together.
/// \threadsafety The I/O thread only.
class DiskSubfiles final : public internal::DiskWork {
 public:
  DiskSubfiles(DiskDirectory& directory, const DiskStoreOptions& options)
      : directory_(directory),
        part_bytes_(directory_.part_bytes()),
        context_{directory_.path(), options,
                 internal::DiskIo({.queue_depth = options.queue_depth,
                                   .use_uring = options.use_uring,
                                   .direct_from_bytes = options.direct_from_bytes})} {}

  internal::DiskIo& io() override { return context_.io; }

  Task<Status> run(op::Any& operation) override {
    const std::optional<SubfileId> id = subfile_of(operation);
    if (id) ++in_use_[*id];
    close_some();
    Status status = co_await std::visit([this](auto& what) { return run(what); }, operation);
    if (id && --in_use_[*id] == 0) in_use_.erase(*id);
    co_return status;
  }

  [[nodiscard]] bool needs_room() const override {
    return context_.checksum_bytes > context_.options.max_checksum_bytes ||
           unsynced_abouts_.size() > kMostUnsyncedAbouts;
  }

  Task<Status> make_room() override {
    Status status = co_await sync_all();
    if (!status.is_ok()) WEIR_LOG_ERROR("disk store: making room for checksums: {}", status.message());
    // Half of it, so that this does not come again at once.
    const std::size_t limit = context_.options.max_checksum_bytes / 2;
    for (auto name = used_.end(); name != used_.begin() && context_.checksum_bytes > limit;) {
      --name;
      if (parts_.at(*name).part->is_dirty()) continue;
      const PartName oldest = *name++;
      forget(oldest);
    }
    co_return status;
  }

  Task<Status> close() override {
    Status status = co_await sync_all();
    if (!status.is_ok()) WEIR_LOG_ERROR("disk store: closing: {}", status.message());
    co_return status;
  }

 private:
  Task<Status> run(op::KeepAbout& keep) {
    const SubfileId id = keep.id;
    const Result<std::optional<Bytes>> before = kept_about(id);
    const bool is_kept = !before.is_ok() || before->has_value();
    if (before.is_ok() && *before && std::ranges::equal(**before, keep.about)) co_return Status::ok();
    WEIR_CO_RETURN_IF_ERROR(make_folder(context_, id));
    const std::string draft = about_path(id, FileKind::kDraft);
    const Bytes bytes = internal::encode_about(id, keep.about);
    {
      WEIR_CO_TRY(const Descriptor file, internal::open_file(draft, O_WRONLY | O_CREAT | O_TRUNC));
      WEIR_CO_RETURN_IF_ERROR(internal::write_all(file.get(), draft, bytes.data(), bytes.size(), 0));
      if (is_kept) WEIR_CO_RETURN_IF_ERROR(co_await context_.io.sync_file(file.get(), draft));
    }
    const bool is_written = internal::file_exists(about_path(id, FileKind::kSums)) ||
                            internal::file_exists(about_path(id, FileKind::kAbout));
    const std::string path = about_path(id, is_written ? FileKind::kAbout : FileKind::kEmpty);
    if (::rename(draft.c_str(), path.c_str()) != 0) co_return os_error("make", path, errno);
    unsynced_abouts_.insert(id);
    // Left by a crash while the subfile was made: it must not come back in place of the new one.
    co_return is_written ? internal::unlink_if_exists(about_path(id, FileKind::kEmpty)) : Status::ok();
  }

  Task<Status> run(op::KeptAbout& kept) {
    WEIR_CO_TRY(kept.result, kept_about(kept.id));
    co_return Status::ok();
  }

  Task<Status> run(op::ListAbouts& list) {
    WEIR_CO_TRY(list.result,
                list_files([](FileKind kind) { return kind == FileKind::kAbout || kind == FileKind::kEmpty; }));
    co_return Status::ok();
  }

  Task<Status> run(op::KeepFences& keep) { co_return directory_.save_fences(keep.fences); }
  Task<Status> run(op::KeptFences& kept) {
    WEIR_CO_TRY(kept.result, directory_.load_fences());
    co_return Status::ok();
  }
  Task<Status> run(op::SetLabel& set) { co_return directory_.set_label(set.label); }

  Task<Status> run(op::Read& read) {
    const SubfileId id = read.id;
    WEIR_CO_RETURN_IF_ERROR(check_pieces("read", id, std::span<const ReadPiece>(read.pieces)));
    for (const PartPieces<ReadPiece>& some : split(read.pieces)) {
      WEIR_CO_TRY(DiskPart* const part, co_await find(PartName{id, some.part}));
      if (part != nullptr) {
        WEIR_CO_RETURN_IF_ERROR(co_await part->read(some.pieces));
        continue;
      }
      for (const ReadPiece& piece : some.pieces) std::fill(piece.memory.begin(), piece.memory.end(), std::byte{0});
    }
    co_return Status::ok();
  }

  Task<Status> run(op::Write& write) {
    const SubfileId id = write.id;
    WEIR_CO_RETURN_IF_ERROR(check_pieces("write", id, std::span<const WritePiece>(write.pieces)));
    WEIR_CO_RETURN_IF_ERROR(check_file_end("write", id, write.file_end));
    WEIR_CO_TRY(DiskPart* const first, co_await find_or_create(PartName{id, 0}));
    Offset length = 0;
    Status status;
    for (const PartPieces<WritePiece>& some : split(write.pieces)) {
      Result<DiskPart*> part = co_await find_or_create(PartName{id, some.part});
      if (part.is_ok()) {
        const Offset before = (*part)->data_length();
        status = co_await (*part)->write(some.pieces);
        const Offset after = (*part)->data_length();
        if (after > before) length = std::max(length, some.part * part_bytes_ + after);
      } else {
        status = part.status();
      }
      if (!status.is_ok()) break;
    }
    const Offset file_end = status.is_ok() ? std::max(first->file_end(), write.file_end) : first->file_end();
    first->set_subfile(std::max(first->subfile_length(), length), file_end);
    co_return status;
  }

  Task<Status> run(op::Truncate& truncate) {
    const SubfileId id = truncate.id;
    const Offset length = truncate.length;
    if (length < 0 || length > kMaxBytes) {
      co_return out_of_range(fmt::format("truncate {}: a length of {} leaves the range of file offsets (2^62 bytes)",
                                         internal::describe(id), length));
    }
    WEIR_CO_RETURN_IF_ERROR(check_file_end("truncate", id, truncate.file_end));
    WEIR_CO_TRY(DiskPart* const first, co_await find_or_create(PartName{id, 0}));
    first->set_subfile(length, truncate.file_end);
    WEIR_CO_TRY(std::vector<PartName> parts, parts_of(id, first->has_more_parts()));
    for (auto name = parts.rbegin(); name != parts.rend(); ++name) {
      const Offset start = name->part * part_bytes_;
      if (name->part > 0 && start >= length) {
        WEIR_CO_RETURN_IF_ERROR(remove_part(*name));
        first->note_removed_part();
      } else {
        WEIR_CO_TRY(DiskPart* const part, co_await find(*name));
        if (part != nullptr) WEIR_CO_RETURN_IF_ERROR(co_await part->cut(std::max<Offset>(0, length - start)));
      }
    }
    co_return Status::ok();
  }

  Task<Status> run(op::Reserve& reserve) {
    auto [id, from, to] = reserve;
    if (from < 0 || from > to || to > kMaxBytes) {
      co_return out_of_range(fmt::format("reserve {}: no such range: {} to {}", internal::describe(id), from, to));
    }
    // Asked first: the system would fill the disk before it finds that there is too little.
    WEIR_CO_TRY(const struct statvfs system, directory_.file_system());
    const Offset available = static_cast<Offset>(system.f_bavail) * static_cast<Offset>(system.f_frsize);
    if (to - from > available) {
      co_return Status(ErrorCode::kNoSpace,
                       fmt::format("reserve {}: {} bytes from {} on in {}, which has {} left", internal::describe(id),
                                   to - from, from, directory_.path(), available));
    }
    while (from < to) {
      const Offset number = from / part_bytes_;
      const Offset end = std::min(to, (number + 1) * part_bytes_);
      WEIR_CO_TRY(DiskPart* const part, co_await find_or_create(PartName{id, number}));
      WEIR_CO_RETURN_IF_ERROR(part->reserve(from - number * part_bytes_, end - number * part_bytes_));
      from = end;
    }
    co_return Status::ok();
  }

  Task<Status> run(op::Sync& sync) {
    WEIR_CO_RETURN_IF_ERROR(co_await sync_about(sync.id));
    co_return co_await sync_parts(sync.id);
  }

  Task<Status> run(op::Info& info) {
    const SubfileId id = info.id;
    WEIR_CO_TRY(DiskPart* const first, co_await find(PartName{id, 0}));
    if (first == nullptr) co_return Status::ok();
    info.result = {first->subfile_length(), first->file_end(), 0};
    WEIR_CO_TRY(const std::vector<PartName> parts, parts_of(id, first->has_more_parts()));
    for (const PartName& name : parts) {
      WEIR_CO_TRY(DiskPart* const part, co_await find(name));
      if (part == nullptr) continue;
      WEIR_CO_TRY(const Offset bytes, part->stored_bytes());
      info.result.stored_bytes += bytes;
    }
    co_return Status::ok();
  }

  Task<Status> run(op::Remove& remove) {
    const SubfileId id = remove.id;
    for (const FileKind kind : {FileKind::kAbout, FileKind::kEmpty, FileKind::kDraft}) {
      WEIR_CO_RETURN_IF_ERROR(internal::unlink_if_exists(about_path(id, kind)));
    }
    unsynced_abouts_.erase(id);
    // A damaged subfile can be removed too; of one, nobody knows how many parts it has.  DiskPart 0 goes last; without it,
    // the others would be found by nobody.
    const Result<DiskPart*> first = co_await find(PartName{id, 0});
    const bool has_more = !first.is_ok() || (*first != nullptr && (*first)->has_more_parts());
    WEIR_CO_TRY(const std::vector<PartName> parts, parts_of(id, has_more));
    for (auto name = parts.rbegin(); name != parts.rend(); ++name) WEIR_CO_RETURN_IF_ERROR(remove_part(*name));
    co_return Status::ok();
  }

  Task<Status> run(op::GetUsage& get) {
    WEIR_CO_TRY(const struct statvfs system, directory_.file_system());
    const auto unit = static_cast<Offset>(system.f_frsize);
    Usage& usage = get.result;
    usage.used_bytes = static_cast<Offset>(system.f_blocks - system.f_bfree) * unit;
    usage.capacity_bytes = usage.used_bytes + static_cast<Offset>(system.f_bavail) * unit;
    if (!subfiles_) {
      WEIR_CO_TRY(const std::vector<SubfileId> all, list());
      subfiles_ = static_cast<Offset>(all.size());
    }
    usage.subfiles = *subfiles_;
    WEIR_CO_TRY(usage.disk, directory_.disk());
    co_return Status::ok();
  }

  Task<Status> run(op::StoredBytes& stored) {
    Offset blocks = 0;
    WEIR_CO_RETURN_IF_ERROR(directory_.visit_files([&](const std::string& path, const std::optional<FileName>& name) {
      struct stat status {};
      if (name && ::lstat(path.c_str(), &status) == 0) blocks += status.st_blocks;
    }));
    stored.result = 512 * blocks;
    co_return Status::ok();
  }

  Task<Status> run(op::List& all) {
    WEIR_CO_TRY(all.result, list());
    co_return Status::ok();
  }

  [[nodiscard]] Result<std::vector<SubfileId>> list() const {
    // One of the two may be missing: the subfile is damaged, and there all the same.
    return list_files([](FileKind kind) { return kind == FileKind::kSums || kind == FileKind::kData; });
  }

  Result<std::optional<Bytes>> kept_about(SubfileId id) const {
    for (const FileKind kind : {FileKind::kAbout, FileKind::kEmpty}) {
      const std::string path = about_path(id, kind);
      WEIR_TRY(const std::optional<Descriptor> file, internal::open_if_exists(path, O_RDONLY));
      if (!file) continue;
      Result<Bytes> about = internal::read_about(id, file->get(), path);
      if (!about.is_ok()) return about.status();
      return std::optional(std::move(*about));
    }
    return std::optional<Bytes>{};
  }

  static std::optional<SubfileId> subfile_of(const op::Any& operation) {
    return std::visit(
        [](const auto& what) -> std::optional<SubfileId> {
          if constexpr (requires { what.id; }) {
            return what.id;
          } else {
            return std::nullopt;
          }
        },
        operation);
  }

  struct Entry {
    std::unique_ptr<DiskPart> part;
    std::list<PartName>::iterator place;  // in used_
    std::optional<std::list<PartName>::iterator> open_place = std::nullopt;
  };

  /// Pieces in one part, with its own offsets.
  template <typename Piece>
  struct PartPieces {
    Offset part = 0;
    std::vector<Piece> pieces;
  };

  // Splits pieces at the borders of parts; neighbours in the same part stay together.
  template <typename Piece>
  std::vector<PartPieces<Piece>> split(const std::vector<Piece>& pieces) const {
    std::vector<PartPieces<Piece>> parts;
    for (Piece piece : pieces) {
      while (!piece.memory.empty()) {
        const Offset number = piece.offset / part_bytes_;
        if (parts.empty() || parts.back().part != number) parts.push_back({number, {}});
        const Offset start = piece.offset - number * part_bytes_;
        const auto size = std::min(piece.memory.size(), static_cast<std::size_t>(part_bytes_ - start));
        parts.back().pieces.push_back({start, piece.memory.first(size)});
        piece = {piece.offset + static_cast<Offset>(size), piece.memory.subspan(size)};
      }
    }
    return parts;
  }

  // Null if there is none.  Valid until remove_part() or make_room().
  Task<Result<DiskPart*>> find(PartName name) {
    if (const auto known = parts_.find(name); known != parts_.end()) co_return use(known->second);
    const TaskMutex::Guard guard = co_await opening_.lock();
    co_return co_await open(name);
  }

  Task<Result<DiskPart*>> find_or_create(PartName name) {
    if (const auto known = parts_.find(name); known != parts_.end()) co_return use(known->second);
    const TaskMutex::Guard guard = co_await opening_.lock();
    if (name.part > 0) {
      WEIR_CO_TRY(DiskPart* const found, co_await open(name));
      if (found != nullptr) co_return found;
      WEIR_CO_TRY(DiskPart* const first, co_await open_or_create(PartName{name.id, 0}));
      WEIR_CO_RETURN_IF_ERROR(co_await first->note_more_parts());
    }
    co_return co_await open_or_create(name);
  }

  // The same, with the lock.
  Task<Result<DiskPart*>> open(PartName name) {
    if (const auto known = parts_.find(name); known != parts_.end()) co_return use(known->second);
    WEIR_CO_TRY(std::unique_ptr<DiskPart> part, co_await DiskPart::open(context_, name));
    co_return part ? keep(std::move(part)) : nullptr;
  }

  Task<Result<DiskPart*>> open_or_create(PartName name) {
    WEIR_CO_TRY(DiskPart* const found, co_await open(name));
    if (found != nullptr) co_return found;
    WEIR_CO_TRY(std::unique_ptr<DiskPart> part, DiskPart::create(context_, name));
    if (name.part == 0 && subfiles_) ++*subfiles_;
    co_return keep(std::move(part));
  }

  DiskPart* keep(std::unique_ptr<DiskPart> part) {
    used_.push_front(part->name());
    const PartName name = part->name();
    return use(parts_.insert_or_assign(name, Entry{std::move(part), used_.begin()}).first->second);
  }

  // Every use of a part may open its files.
  DiskPart* use(Entry& entry) {
    used_.splice(used_.begin(), used_, entry.place);
    if (!entry.open_place) entry.open_place = open_.insert(open_.begin(), entry.part->name());
    open_.splice(open_.begin(), open_, *entry.open_place);
    return entry.part.get();
  }

  Status remove_part(PartName name) {
    forget(name);
    const bool is_subfile = name.part == 0 && subfiles_ &&
                            (internal::file_exists(path_of(directory_.path(), name, FileKind::kSums)) ||
                             internal::file_exists(path_of(directory_.path(), name, FileKind::kData)));
    WEIR_RETURN_IF_ERROR(DiskPart(context_, name).remove());
    if (is_subfile) --*subfiles_;
    return Status::ok();
  }

  // Ascending; may name parts that do not exist.
  Result<std::vector<PartName>> parts_of(SubfileId id, bool has_more) const {
    std::vector<PartName> parts{{id, 0}};
    if (!has_more) return parts;
    WEIR_RETURN_IF_ERROR(directory_.visit_folder(internal::folder_of(id), [&](const std::string&, const auto& name) {
      if (name && name->part.id == id) parts.push_back(name->part);
    }));
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    return parts;
  }

  [[nodiscard]] std::string about_path(SubfileId id, FileKind kind) const {
    return path_of(directory_.path(), {id, 0}, kind);
  }

  template <typename IsMeant>
  Result<std::vector<SubfileId>> list_files(IsMeant is_meant) const {
    std::vector<SubfileId> ids;
    WEIR_RETURN_IF_ERROR(directory_.visit_files([&](const std::string&, const std::optional<FileName>& name) {
      if (name && name->part.part == 0 && is_meant(name->kind)) ids.push_back(name->part.id);
    }));
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
  }

  Task<Status> sync_about(SubfileId id) {
    if (unsynced_abouts_.count(id) == 0) co_return Status::ok();
    for (const FileKind kind : {FileKind::kAbout, FileKind::kEmpty}) {
      const std::string path = about_path(id, kind);
      WEIR_CO_TRY(const std::optional<Descriptor> file, internal::open_if_exists(path, O_RDWR));
      if (file) WEIR_CO_RETURN_IF_ERROR(co_await context_.io.sync_file(file->get(), path));
    }
    const auto first = parts_.find({id, 0});
    if (first != parts_.end() && first->second.part->is_dirty()) {
      first->second.part->note_changed_names();  // its own sync follows
    } else {
      WEIR_CO_RETURN_IF_ERROR(co_await sync_folder(context_, id));
    }
    unsynced_abouts_.erase(id);
    co_return Status::ok();
  }

  Task<Status> sync_parts(SubfileId id) {
    const auto begin = parts_.lower_bound({id, 0});
    const auto end = parts_.upper_bound({id, kMaxBytes});
    for (auto entry = end; entry != begin;) {
      --entry;
      if (entry->second.part->is_dirty()) WEIR_CO_RETURN_IF_ERROR(co_await use(entry->second)->sync());
    }
    co_return Status::ok();
  }

  // All there is to sync, with a few waits for the disk instead of some for each part.  Parts that have lost data stay
  // as they are: who syncs them is told.
  Task<Status> sync_all() {
    std::vector<Entry*> dirty;
    for (auto& entry : parts_) {
      if (entry.second.part->is_dirty() && !entry.second.part->is_lost()) dirty.push_back(&entry.second);
    }
    if (dirty.size() + unsynced_abouts_.size() < kManyParts) {
      while (!unsynced_abouts_.empty()) WEIR_CO_RETURN_IF_ERROR(co_await sync_about(*unsynced_abouts_.begin()));
      for (auto entry = dirty.rbegin(); entry != dirty.rend(); ++entry) {
        WEIR_CO_RETURN_IF_ERROR(co_await use(**entry)->sync());
      }
      co_return Status::ok();
    }
    using Step = DiskPart::SyncStep;
    for (const Step step : {Step::kPrepare, Step::kWriteSums, Step::kDone}) {
      for (Entry* entry : dirty) {
        WEIR_CO_RETURN_IF_ERROR(co_await use(*entry)->sync_step(step));
        close_some();
      }
      if (step == Step::kDone) continue;
      const Status status = directory_.sync_file_system();
      if (status.is_ok()) continue;
      // The system does not say whose data it could not write, and will not say it again.
      for (Entry* entry : dirty) entry->part->note_lost();
      co_return status;
    }
    context_.unsynced_folders.clear();
    unsynced_abouts_.clear();
    co_return Status::ok();
  }

  // Keeps the number of descriptors within bounds; parts in use keep theirs.
  void close_some() {
    for (auto name = open_.end(); name != open_.begin() && open_.size() > context_.options.max_open;) {
      --name;
      if (in_use_.contains(name->id)) continue;
      Entry& entry = parts_.at(*name);
      entry.part->close_descriptors();
      entry.open_place.reset();
      name = open_.erase(name);
    }
  }

  void forget(PartName name) {
    const auto known = parts_.find(name);
    if (known == parts_.end()) return;
    used_.erase(known->second.place);
    if (known->second.open_place) open_.erase(*known->second.open_place);
    parts_.erase(known);
  }

  DiskDirectory& directory_;
  Offset part_bytes_;
  DiskContext context_;
  std::map<PartName, Entry> parts_;
  std::list<PartName> used_;        // all, the one used last first
  std::list<PartName> open_;        // those that may have descriptors, likewise
  std::optional<Offset> subfiles_;  // counted when first asked for
  std::set<SubfileId> unsynced_abouts_;
  std::map<SubfileId, std::size_t> in_use_;  // by operations in flight
  TaskMutex opening_;                        // one part is opened or made at a time
};

class DiskStore final : public Store {
 public:
  DiskStore(DiskDirectory directory, const DiskStoreOptions& options)
      : directory_(std::move(directory)), subfiles_(directory_, options) {}
  ~DiskStore() override { stop(); }

  Status start(const DiskStoreOptions& options) {
    thread_ = std::make_unique<internal::DiskThread>(subfiles_, options.queue_depth);
    return thread_->start(*options.runtime.executor);
  }

  void submit(IoBatch batch, Completion done) override { thread_->submit(std::move(batch), std::move(done)); }
  void stop() override { thread_->stop(); }
  Loop* deliver_to(Loop* loop) override { return thread_->deliver_to(loop); }
  [[nodiscard]] Capabilities capabilities() const override { return {.durable = true, .keeps_about = true}; }
  [[nodiscard]] std::uint64_t id() const override { return directory_.id(); }
  [[nodiscard]] Label label() const override { return directory_.label(); }

 private:
  DiskDirectory directory_;
  DiskSubfiles subfiles_;
  std::unique_ptr<internal::DiskThread> thread_;  // uses both
};

}  // namespace

Result<std::optional<Label>> read_disk_label(const std::string& directory) {
  return DiskDirectory::read_label(directory);
}

Result<std::unique_ptr<Store>> open_disk_store(const std::string& directory, const DiskStoreOptions& options) {
  WEIR_TRY(DiskDirectory opened,
           DiskDirectory::open_or_create(directory, options.part_bytes, options.label, *options.runtime.random));
  auto store = std::make_unique<DiskStore>(std::move(opened), options);
  WEIR_RETURN_IF_ERROR(store->start(options));
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace weir::storage
