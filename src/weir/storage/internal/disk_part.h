#pragma once

// One part of a subfile on disk: a file with the data and one with the checksums.  The beginning of disk_store.cpp says
// in which order they are written.

#include <bitset>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <weir/base/result.h>
#include <weir/base/task.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/internal/disk_io.h>
#include <weir/storage/internal/disk_sums.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

/// Memory for a block that is verified or summed.
using ScratchBlock = std::vector<std::byte>;
/// Of one operation, at most.
inline constexpr std::size_t kScratchBlocks = 64;

/// What the parts of a store share.
struct DiskContext {
  std::string directory;
  DiskStoreOptions options;
  DiskIo io;
  std::set<std::string> unsynced_folders = {};  ///< Made, but not yet durable in `directory`.
  std::vector<ScratchBlock> scratch = {};       ///< Free ones.
  std::size_t checksum_bytes = 0;               ///< Taken by all parts, nearly all of it by sums.

  ScratchBlock take_scratch();
};

/// Makes the folder of a subfile, if need be.
Status make_folder(DiskContext& context, SubfileId id);
/// The entries of that folder, and its own, are durable when it returns.
Task<Status> sync_folder(DiskContext& context, SubfileId id);
bool file_exists(const std::string& path);
Status unlink_if_exists(const std::string& path);

/// Reads and writes of different blocks may be in flight together; other operations are alone.
class DiskPart {
 public:
  /// Null if there is none.  Finishes a removal that a crash interrupted.
  static Task<Result<std::unique_ptr<DiskPart>>> open(DiskContext& context, PartName name);
  static Result<std::unique_ptr<DiskPart>> create(DiskContext& context, PartName name);

  DiskPart(DiskContext& context, PartName name);
  DiskPart(const DiskPart&) = delete;
  DiskPart& operator=(const DiskPart&) = delete;
  ~DiskPart();

  // Offsets are those of the part.
  Task<Status> read(std::span<const ReadPiece> pieces);
  Task<Status> write(std::span<const WritePiece> pieces);
  /// Cuts off what lies behind `length`, if anything does.
  Task<Status> cut(Offset length);
  Status reserve(Offset from, Offset to);
  Task<Status> sync();
  /// The same in steps, for many parts at once: the caller makes durable what was written, between one step and the
  /// next.
  enum class SyncStep : std::uint8_t { kPrepare, kWriteSums, kDone };
  Task<Status> sync_step(SyncStep step);
  /// The object is of no use any more.
  Status remove();

  [[nodiscard]] PartName name() const noexcept { return name_; }
  [[nodiscard]] Offset data_length() const noexcept { return data_length_; }
  Result<Offset> stored_bytes();
  [[nodiscard]] bool is_dirty() const noexcept { return is_dirty_; }
  /// The system could not write data that it had taken: every sync says so from now on.
  [[nodiscard]] bool is_lost() const noexcept { return is_lost_; }
  void note_lost() noexcept { is_lost_ = true; }

  // What part 0 keeps of the whole subfile.
  [[nodiscard]] Offset subfile_length() const noexcept { return header_.subfile_length; }
  [[nodiscard]] Offset file_end() const noexcept { return header_.file_end; }
  void set_subfile(Offset length, Offset file_end);
  [[nodiscard]] bool has_more_parts() const noexcept { return header_.has_more_parts; }
  /// To be called before another part is made.  Durable, so that none can be forgotten.
  Task<Status> note_more_parts();
  /// Another part was removed: the next sync makes that durable too, or its bytes could come back.
  void note_removed_part() noexcept { is_dirty_ = has_changed_names_ = true; }
  /// A file beside it got its name: the next sync makes that durable too, as it does those of new parts.  \pre
  /// is_dirty()
  void note_changed_names() noexcept { has_changed_names_ = true; }

  /// They come back when they are needed.
  void close_descriptors() noexcept;

 private:
  class Reader;
  struct Change;

  Task<Status> load();
  Status load_header(Offset sums_bytes);
  Task<Status> recover_tail(Offset sums_bytes);
  Status open_descriptors();
  int direct_for(std::size_t size);
  Task<Result<SumPage*>> page(Offset index);
  Status write_page(Offset index, const SumPageImage& image);
  Status write_header();
  Task<Status> sync_sums_file() { return context_.io.sync_file(sums_.get(), sums_path_); }
  Task<Status> sync_data();
  Task<Status> sync_names();
  Task<Status> unmark(std::span<const WritePiece> pieces);
  Status unmark_rest(Offset index, std::size_t first, std::bitset<kSumsPerPage>& unmarked);
  bool lengthen(std::span<const WritePiece> pieces);
  Task<Status> write_data(std::span<const WritePiece> pieces, std::vector<Change>& sums);
  Task<Status> compute_sums();
  Task<Status> compute_sums(std::span<const Change> unknown);
  Status write_sums();
  Result<bool> grow_sums_file();
  Status cut_files(Offset length);
  void count_sums();
  [[nodiscard]] Status lost() const;
  [[nodiscard]] Status damaged(const std::string& path, std::string_view what) const;

  DiskContext& context_;
  PartName name_;
  std::string data_path_;
  std::string sums_path_;
  Descriptor data_;
  Descriptor direct_;
  Descriptor sums_;
  SumsHeader header_;  // as it will be written next, but for the sequence number and data_length
  Offset data_length_ = 0;
  Offset lengthened_ = 0;    // how long the file was made for writes in flight
  std::size_t writers_ = 0;  // writes in flight
  TaskMutex unmarking_;      // one write at a time clears sums: each writes whole pages of them
  Offset sums_bytes_ = 0;    // length of the file with the sums
  std::map<Offset, std::unique_ptr<SumPage>> pages_;
  Offset pages_ahead_ = 0;  // unmarked ahead of the next write that takes it, doubled by each since the last sync
  std::size_t counted_bytes_ = 0;  // in DiskContext::checksum_bytes
  bool is_direct_refused_ = false;
  bool is_dirty_ = false;
  bool has_changed_names_ = false;  // the entries of the files in their folder are not durable
  bool is_lost_ = false;
};

}  // namespace weir::storage::internal
