#include <weir/storage/internal/metadata_files.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <weir/base/system_call.h>
#include <weir/log/log.h>
#include <weir/storage/internal/disk_files.h>

namespace weir::storage::internal {
namespace {

using rocksdb::IOStatus;

std::string spare_path(const std::string& directory) { return directory + "/spare.log"; }
std::string reserve_path(const std::string& directory) { return directory + "/reserve"; }

// Takes room without making the file longer.
Status take_room(const Descriptor& file, const std::string& path, Offset from, Offset to) {
  const int done = uninterrupted([&] { return ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, from, to - from); });
  if (done == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return Status::ok();
  return os_error("take room for", path, errno);
}

// A file of its own with room; not there if that cannot be had.
Result<Descriptor> make_file_with_room(const std::string& path, Offset bytes) {
  WEIR_TRY(Descriptor file, open_file(path, O_RDWR | O_CREAT | O_TRUNC));
  const Status status = take_room(file, path, 0, bytes);
  if (status.is_ok()) return file;
  ::unlink(path.c_str());
  return status;
}

IOStatus to_io_status(const Status& status) {
  if (status.is_ok()) return IOStatus::OK();
  return status.code() == ErrorCode::kNoSpace ? IOStatus::NoSpace(status.message())
                                              : IOStatus::IOError(status.message());
}

bool names_log(const std::string& path) { return path.ends_with(".log"); }
bool names_manifest(const std::string& path) { return path.find("/MANIFEST-") != std::string::npos; }

}  // namespace

/// A log of RocksDB.  It never learns that appending failed: it would call the file again and abort.  Instead, syncing
/// it fails from then on.
class MetadataLog final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  MetadataLog(MetadataFiles& files, std::string path, std::unique_ptr<rocksdb::FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)), files_(files), path_(std::move(path)) {}

  IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                  rocksdb::IODebugContext* debug) override {
    if (!is_whole()) return IOStatus::OK();
    return note(data.size(), FSWritableFileOwnerWrapper::Append(data, options, debug));
  }
  IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification, rocksdb::IODebugContext* debug) override {
    if (!is_whole()) return IOStatus::OK();
    return note(data.size(), FSWritableFileOwnerWrapper::Append(data, options, verification, debug));
  }
  IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    if (!is_whole()) return IOStatus::IOError(files_.log_failure().message());
    return FSWritableFileOwnerWrapper::Sync(options, debug);
  }
  IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    return Sync(options, debug);
  }
  // It has its room.
  void PrepareWrite(size_t, size_t, const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {}

 private:
  // What follows a gap is of no use, and looks like damage.
  [[nodiscard]] bool is_whole() const { return !files_.has_failed_; }

  IOStatus note(std::size_t bytes, const IOStatus& status) {
    const std::lock_guard lock(files_.mutex_);
    if (path_ == files_.log_path_) files_.log_bytes_ += static_cast<Offset>(bytes);
    if (!status.ok()) {
      files_.failure_ = {
          status.IsNoSpace() ? ErrorCode::kNoSpace : ErrorCode::kIoError,
          fmt::format("{} could not be written: {}; names that were changed since may be lost: see to the "
                      "disk, then start the server again",
                      path_, status.ToString())};
      files_.has_failed_ = true;
      WEIR_LOG_ERROR("{}", files_.failure_.message());
    }
    return IOStatus::OK();
  }

  MetadataFiles& files_;
  std::string path_;
};

MetadataFiles::MetadataFiles(std::string directory)
    : FileSystemWrapper(rocksdb::FileSystem::Default()), directory_(std::move(directory)) {}

MetadataFiles::~MetadataFiles() = default;

IOStatus MetadataFiles::NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSWritableFile>* file,
                                        rocksdb::IODebugContext* debug) {
  if (names_log(path)) return new_log(path, options, file, debug);
  if (names_manifest(path)) return new_manifest(path, options, file, debug);
  return target()->NewWritableFile(path, options, file, debug);
}

IOStatus MetadataFiles::new_log(const std::string& path, const rocksdb::FileOptions& options,
                                std::unique_ptr<rocksdb::FSWritableFile>* file, rocksdb::IODebugContext* debug) {
  const std::lock_guard lock(mutex_);
  Descriptor log;
  if (has_spare_ && ::rename(spare_path(directory_).c_str(), path.c_str()) == 0) {
    Result<Descriptor> opened = open_file(path, O_RDWR);
    if (!opened.is_ok()) return to_io_status(opened.status());
    log = std::move(*opened);
  } else {
    Result<Descriptor> made = make_file_with_room(path, kLogBytes);
    if (!made.is_ok()) return to_io_status(made.status());
    log = std::move(*made);
  }
  has_spare_ = false;
  // Not NewWritableFile(): that cuts the file, and the room that was taken goes with it.
  std::unique_ptr<rocksdb::FSWritableFile> opened;
  const IOStatus status = target()->ReopenWritableFile(path, options, &opened, debug);
  if (!status.ok()) return status;
  *file = std::make_unique<MetadataLog>(*this, path, std::move(opened));
  log_ = std::move(log);
  log_path_ = path;
  log_bytes_ = 0;
  log_room_ = kLogBytes;
  return status;
}

IOStatus MetadataFiles::new_manifest(const std::string& path, const rocksdb::FileOptions& options,
                                     std::unique_ptr<rocksdb::FSWritableFile>* file, rocksdb::IODebugContext* debug) {
  const IOStatus status = target()->NewWritableFile(path, options, file, debug);
  if (!status.ok()) return status;
  const Result<Descriptor> own = open_file(path, O_RDWR);
  const Status taken = own.is_ok() ? take_room(*own, path, 0, kManifestBytes) : own.status();
  if (!taken.is_ok()) file->reset();
  return to_io_status(taken);
}

Status MetadataFiles::keep_spare() {
  const std::lock_guard lock(mutex_);
  if (!has_spare_) WEIR_RETURN_IF_ERROR(make_file_with_room(spare_path(directory_), kLogBytes).status());
  has_spare_ = true;
  return Status::ok();
}

Status MetadataFiles::keep_reserve() {
  WEIR_RETURN_IF_ERROR(keep_spare());
  const std::lock_guard lock(mutex_);
  if (!has_reserve_) WEIR_RETURN_IF_ERROR(make_file_with_room(reserve_path(directory_), kReserveBytes).status());
  has_reserve_ = true;
  return Status::ok();
}

void MetadataFiles::give_up_reserve() {
  const std::lock_guard lock(mutex_);
  has_reserve_ = false;
  ::unlink(reserve_path(directory_).c_str());
}

Status MetadataFiles::make_room(Offset bytes, Offset left) {
  const std::lock_guard lock(mutex_);
  const Offset needed = log_bytes_ + bytes + left;
  if (needed <= log_room_ || !log_.is_open()) return Status::ok();
  const Offset room = std::max(needed, log_room_ + kLogBytes);
  WEIR_RETURN_IF_ERROR(take_room(log_, log_path_, log_room_, room));
  log_room_ = room;
  return Status::ok();
}

Status MetadataFiles::log_failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace weir::storage::internal
