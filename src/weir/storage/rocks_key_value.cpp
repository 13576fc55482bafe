// RocksDB, set up small: metadata of a million files is some 100 MB, and a server may share its machine with the
// computation.
//
// What is durable: batches go to RocksDB's log, in order.  sync() and apply(durable) sync the log, by a thread that
// does so for all who wait; soon after that, the number of the last change that is durable goes to a file beside the
// database (internal/watermark.h).
//
// What opening does: it reads the database without changing it first.
//   after a loss of power   the log may be torn behind what was synced.  It is read up to the first record that is
//                           damaged; if that is before the watermark, names are missing that were said to be durable:
//                           refused.
//   otherwise               a process was killed at most: the last record may be cut off.  Any other damage: refused.
//
// What a full disk does: internal/metadata_files.h.

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/internal/group_commit.h>
#include <weir/storage/internal/metadata_files.h>
#include <weir/storage/internal/watermark.h>
#include <weir/storage/key_value.h>

namespace weir::storage {
namespace {

using internal::GroupCommit;
using internal::MetadataFiles;
using internal::Watermark;

constexpr std::size_t kCacheBytes = 16 << 20;
constexpr std::size_t kWriteBufferBytes = 4 << 20;
constexpr std::size_t kMostManifestBytes = 1 << 20;
static_assert(2 * kMostManifestBytes <= MetadataFiles::kManifestBytes);
// Both buffers can be written out from what was in reserve, the next log being made of it too.
static_assert(2 * kWriteBufferBytes + MetadataFiles::kLogBytes < MetadataFiles::kReserveBytes);

// Of the log, for removals.
constexpr Offset kRemovalBytes = 128 << 10;

constexpr std::string_view kRemedy =
    "; restore the directory from a copy, or rebuild it from the stores (weir fsck --rebuild)";

rocksdb::Slice to_slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view to_view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

Status to_status(std::string_view operation, const std::string& directory, const rocksdb::Status& status) {
  if (status.ok()) return Status::ok();
  const std::string text = concat("metadata in ", directory, ": ", operation, ": ", status.ToString());
  if (status.IsCorruption()) return corrupt(concat(text, kRemedy));
  if (status.IsNoSpace()) return {ErrorCode::kNoSpace, concat(text, "; make room on that disk, and try again")};
  return {ErrorCode::kIoError, text};
}

/// RocksDB's own messages, with those of the server: a file of its own is one more that a full disk fails.
class RocksLogger final : public rocksdb::Logger {
 public:
  RocksLogger() : Logger(rocksdb::WARN_LEVEL) {}
  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    if (!log::is_enabled(log::Level::kInfo)) return;
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    WEIR_LOG_INFO("metadata: {}", line);
  }
};

/// Notes when RocksDB stops writing.  Only what the next change asks for makes it go on.
class StallListener final : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override {
    if (!is_stalled_.exchange(true)) WEIR_LOG_ERROR("metadata: cannot be written: {}", error->ToString());
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* auto_recovery) override {
    *auto_recovery = false;
  }
  [[nodiscard]] bool is_stalled() const { return is_stalled_; }
  void note() { is_stalled_ = true; }
  void clear() { is_stalled_ = false; }

 private:
  std::atomic<bool> is_stalled_{false};
};

rocksdb::Options make_options() {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kCacheBytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.create_if_missing = true;
  options.write_buffer_size = kWriteBufferBytes;
  options.max_write_buffer_number = 2;
  options.max_total_wal_size = 4 * kWriteBufferBytes;
  options.max_manifest_file_size = kMostManifestBytes;
  options.max_open_files = 128;
  options.max_background_jobs = 2;
  options.compression = rocksdb::kNoCompression;  // keys and attributes are short
  options.info_log = std::make_shared<RocksLogger>();
  return options;
}

// Keys are short, and partly text.
std::string printable(std::string_view key) {
  std::string text;
  for (const char byte : key) {
    if (byte >= ' ' && byte <= '~') {
      text += byte;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return text;
}

std::string watermark_path(const std::string& directory) { return directory + "/watermark"; }

// Of a record in the log, from above.
Offset log_bytes_of(const Batch& batch) {
  std::size_t bytes = 64;
  for (const Batch::Change& change : batch.changes) {
    bytes += 16 + change.key.size() + (change.value ? change.value->size() : 0);
  }
  return static_cast<Offset>(bytes + bytes / 1000);
}

class RocksKeyValue final : public KeyValue {
 public:
  RocksKeyValue(std::string directory, std::unique_ptr<rocksdb::Env> env, std::shared_ptr<MetadataFiles> files,
                std::shared_ptr<StallListener> stall, std::unique_ptr<rocksdb::DB> database, Watermark watermark,
                const runtime::Runtime& with)
      : directory_(std::move(directory)),
        env_(std::move(env)),
        files_(std::move(files)),
        stall_(std::move(stall)),
        database_(std::move(database)),
        watermark_(std::move(watermark)),
        durable_(database_->GetLatestSequenceNumber()),
        commits_({.commit = [this] { return commit(); }, .settle = [this] { settle(); }}, with) {}

  Result<std::optional<std::string>> get(std::string_view key) override {
    std::string value;
    const rocksdb::Status status = database_->Get({}, to_slice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>{};
    WEIR_RETURN_IF_ERROR(to_status(concat("get ", printable(key)), directory_, status));
    return std::optional{std::move(value)};
  }

  Status scan(std::string_view prefix, std::string_view after,
              const std::function<bool(std::string_view, std::string_view)>& visit) override {
    const std::unique_ptr<rocksdb::Iterator> at{database_->NewIterator({})};
    at->Seek(to_slice(std::max(prefix, after)));
    for (; at->Valid() && at->key().starts_with(to_slice(prefix)); at->Next()) {
      const std::string_view key = to_view(at->key());
      if (key <= after) continue;
      if (!visit(key, to_view(at->value()))) break;
    }
    return to_status("scan", directory_, at->status());
  }

  // The log is handed to the operating system at each call: that survives the process.  RocksDB's own `sync` would wait
  // for the disk alone.
  Status apply(const Batch& batch, bool durable) override {
    if (!batch.changes.empty()) WEIR_RETURN_IF_ERROR(write(batch));
    return durable ? sync_and_wait(*this) : Status::ok();
  }

  void sync(Done done) override { commits_.ask(std::move(done)); }

 private:
  Status write(const Batch& batch) {
    WEIR_RETURN_IF_ERROR(prepare(batch));
    rocksdb::WriteBatch changes;
    for (const Batch::Change& change : batch.changes) {
      const rocksdb::Status added = change.value ? changes.Put(change.key, *change.value) : changes.Delete(change.key);
      WEIR_RETURN_IF_ERROR(to_status("apply", directory_, added));
    }
    rocksdb::Status written = database_->Write({}, &changes);
    // RocksDB stopped just now, in a thread of its own, and took nothing.  What prepare() does about that may let a
    // removal through.
    if (written.IsNoSpace()) {
      stall_->note();
      WEIR_RETURN_IF_ERROR(prepare(batch));
      written = database_->Write({}, &changes);
    }
    WEIR_RETURN_IF_ERROR(to_status("apply", directory_, written));
    return files_->log_failure();
  }

  // Refuses what the disk has no room for, while nothing has been changed.
  Status prepare(const Batch& batch) {
    WEIR_RETURN_IF_ERROR(files_->log_failure());
    Status reserve = files_->keep_reserve();
    if (stall_->is_stalled()) {
      WEIR_RETURN_IF_ERROR(go_on(batch, reserve));
      reserve = files_->keep_reserve();
    }
    if (!reserve.is_ok() && !(batch.frees_room && has_memory_left())) return full(reserve);
    const Status room = files_->make_room(log_bytes_of(batch), batch.frees_room ? 0 : kRemovalBytes);
    return room.is_ok() ? room : full(room);
  }

  // Lets RocksDB write out its memory; for a removal, with what was in reserve.
  Status go_on(const Batch& batch, const Status& reserve) {
    if (!reserve.is_ok() && !batch.frees_room) return full(reserve);
    stall_->clear();  // before: what fails meanwhile counts
    rocksdb::Status resumed = reserve.is_ok() ? database_->Resume() : rocksdb::Status::NoSpace();
    if (!resumed.ok() && batch.frees_room) {
      files_->give_up_reserve();
      const Status spare = files_->keep_spare();
      resumed = spare.is_ok() ? database_->Resume() : rocksdb::Status::NoSpace(spare.message());
    }
    if (!resumed.ok()) stall_->note();
    return to_status("resume", directory_, resumed);
  }

  [[nodiscard]] Status full(const Status& status) const {
    return {status.code(), concat("metadata in ", directory_, ": nothing was changed: ", status.message(),
                                  "; remove files, or make room on that disk")};
  }

  // Otherwise RocksDB soon begins a new log, and writes out what it has in memory.
  bool has_memory_left() {
    std::uint64_t bytes = 0;
    return database_->GetIntProperty(rocksdb::DB::Properties::kCurSizeActiveMemTable, &bytes) &&
           bytes < kWriteBufferBytes * 3 / 4;
  }

  // In the thread of commits_.
  Status commit() {
    const std::uint64_t sequence = database_->GetLatestSequenceNumber();
    if (sequence <= durable_) return Status::ok();
    WEIR_RETURN_IF_ERROR(to_status("sync", directory_, database_->SyncWAL()));
    durable_ = sequence;
    return Status::ok();
  }

  // Likewise.  Without it, damage of what was synced last could be taken for a torn log: not worth failing a sync for.
  void settle() {
    if (durable_ == watermark_.sequence()) return;
    if (const Status status = watermark_.write(durable_); !status.is_ok()) {
      WEIR_LOG_WARN("metadata in {}: {}", directory_, status.message());
    }
  }

  const std::string directory_;
  const std::unique_ptr<rocksdb::Env> env_;
  const std::shared_ptr<MetadataFiles> files_;
  const std::shared_ptr<StallListener> stall_;
  const std::unique_ptr<rocksdb::DB> database_;
  // Of the thread of commits_.
  Watermark watermark_;
  std::uint64_t durable_;
  GroupCommit commits_;  // last: its thread uses the others
};

// Reads all there is, changing nothing.
Status check_whole(const std::string& directory, const rocksdb::Options& options, const Watermark& watermark) {
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, directory, &opened);
  const std::unique_ptr<rocksdb::DB> database{opened};
  WEIR_RETURN_IF_ERROR(to_status("open", directory, status));
  const std::uint64_t found = database->GetLatestSequenceNumber();
  if (found >= watermark.sequence()) return Status::ok();
  return corrupt(concat("metadata in ", directory, ": the log is damaged or incomplete: ", watermark.sequence(),
                        " changes were made durable, and only the first ", found, " can be read; nothing was changed",
                        kRemedy));
}

}  // namespace

Result<std::unique_ptr<KeyValue>> open_rocks_key_value(const std::string& directory, const runtime::Runtime& with) {
  if (const Status status = internal::make_durable_directory(directory); !status.is_ok()) {
    return Status{ErrorCode::kIoError, concat("metadata in ", directory, ": ", status.message())};
  }
  WEIR_TRY(Watermark watermark, Watermark::open(watermark_path(directory)));
  const auto files = std::make_shared<MetadataFiles>(directory);
  std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
  const auto stall = std::make_shared<StallListener>();
  rocksdb::Options options = make_options();
  options.env = env.get();
  options.listeners.push_back(stall);
  options.wal_recovery_mode = watermark.is_of_this_boot() ? rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords
                                                          : rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  if (std::filesystem::exists(directory + "/CURRENT")) {
    WEIR_RETURN_IF_ERROR(check_whole(directory, options, watermark));
  } else if (watermark.sequence() > 0) {
    return corrupt(concat("metadata in ", directory, ": the file CURRENT is missing", kRemedy));
  }
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, directory, &opened);
  std::unique_ptr<rocksdb::DB> database{opened};
  WEIR_RETURN_IF_ERROR(to_status("open", directory, status));
  // What the log had is in tables now, durably.
  WEIR_RETURN_IF_ERROR(watermark.write(database->GetLatestSequenceNumber()));
  return std::unique_ptr<KeyValue>{std::make_unique<RocksKeyValue>(directory, std::move(env), files, stall,
                                                                   std::move(database), std::move(watermark), with)};
}

}  // namespace weir::storage
