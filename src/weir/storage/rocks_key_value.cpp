// RocksDB, set up small: metadata of a million files is some 100 MB, and a server may share its machine with the computation.

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <weir/base/text.h>
#include <weir/storage/key_value.h>

namespace weir::storage {
namespace {

constexpr std::size_t kCacheBytes = 16 << 20;
constexpr std::size_t kWriteBufferBytes = 8 << 20;

rocksdb::Slice to_slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view to_view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

ErrorCode code_of(const rocksdb::Status& status) {
  if (status.IsCorruption()) return ErrorCode::kCorrupt;
  if (status.IsNoSpace()) return ErrorCode::kNoSpace;
  return ErrorCode::kIoError;
}

Status to_status(std::string_view operation, const std::string& directory, const rocksdb::Status& status) {
  if (status.ok()) return Status::ok();
  return {code_of(status), concat("metadata in ", directory, ": ", operation, ": ", status.ToString())};
}

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
  options.max_open_files = 128;
  options.max_background_jobs = 2;
  options.compression = rocksdb::kNoCompression;  // keys and attributes are short
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.keep_log_file_num = 2;
  return options;
}

class RocksKeyValue final : public KeyValue {
 public:
  RocksKeyValue(std::unique_ptr<rocksdb::DB> database, std::string directory)
      : database_(std::move(database)), directory_(std::move(directory)) {}

  Result<std::optional<std::string>> get(std::string_view key) override {
    std::string value;
    const rocksdb::Status status = database_->Get({}, to_slice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>{};
    WEIR_RETURN_IF_ERROR(to_status("get", directory_, status));
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

  /// The log is handed to the operating system at each call: that survives the process, and with `sync` the machine.
  Status apply(const Batch& batch, bool durable) override {
    if (batch.changes.empty()) return durable ? to_status("sync", directory_, database_->SyncWAL()) : Status::ok();
    rocksdb::WriteBatch changes;
    for (const Batch::Change& change : batch.changes) {
      const rocksdb::Status added = change.value ? changes.Put(change.key, *change.value) : changes.Delete(change.key);
      WEIR_RETURN_IF_ERROR(to_status("apply", directory_, added));
    }
    rocksdb::WriteOptions options;
    options.sync = durable;
    return to_status("apply", directory_, database_->Write(options, &changes));
  }

 private:
  std::unique_ptr<rocksdb::DB> database_;
  std::string directory_;
};

}  // namespace

Result<std::unique_ptr<KeyValue>> open_rocks_key_value(const std::string& directory) {
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(make_options(), directory, &opened);
  std::unique_ptr<rocksdb::DB> database{opened};
  WEIR_RETURN_IF_ERROR(to_status("open", directory, status));
  return std::unique_ptr<KeyValue>{std::make_unique<RocksKeyValue>(std::move(database), directory)};
}

}  // namespace weir::storage
