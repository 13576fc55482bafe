#pragma once

// The files of the metadata database, so that a full disk is found out before RocksDB writes rather than while it does:
// a log or manifest that it could not append to is beyond repair for it (a build with assertions, as Debian's, aborts).
//
//   log         has some room when it is made, and gets more before a batch that needs more
//   spare.log   the next log, with that room: it is renamed when RocksDB begins a new log, as not being able to make
//               one is fatal for RocksDB
//   reserve     room that is given up when RocksDB could not write out what it has in memory, so that it can, and names
//               can be removed again
//
// As long as the last two cannot be had, nothing but removals is accepted.  Where the file system cannot take room
// ahead of use (fallocate), all of this promises nothing, and a disk that is full stops the database until it is opened
// again.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <rocksdb/file_system.h>

#include <weir/base/checked.h>
#include <weir/base/descriptor.h>
#include <weir/base/result.h>

namespace weir::storage::internal {

class MetadataLog;

/// \threadsafety Safe from any thread.
class MetadataFiles final : public rocksdb::FileSystemWrapper {
 public:
  /// Room that a log begins with, and gets at a time.
  static constexpr Offset kLogBytes = Offset{1} << 20;
  static constexpr Offset kReserveBytes = Offset{10} << 20;
  static constexpr Offset kManifestBytes = Offset{2} << 20;

  /// \pre `directory` exists.
  explicit MetadataFiles(std::string directory);
  ~MetadataFiles() override;

  [[nodiscard]] const char* Name() const override { return "weir metadata"; }
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;

  /// Takes room for the next log, if there is none, and for the reserve.  \error kNoSpace
  Status keep_spare();
  Status keep_reserve();
  void give_up_reserve();
  /// From now on, `bytes` more can be appended to the log; there are `left` besides.  \error kNoSpace
  Status make_room(Offset bytes, Offset left);
  /// Why the log misses something that was appended to it.
  [[nodiscard]] Status log_failure() const;

 private:
  friend class MetadataLog;
  rocksdb::IOStatus new_log(const std::string& path, const rocksdb::FileOptions& options,
                            std::unique_ptr<rocksdb::FSWritableFile>* file, rocksdb::IODebugContext* debug);
  rocksdb::IOStatus new_manifest(const std::string& path, const rocksdb::FileOptions& options,
                                 std::unique_ptr<rocksdb::FSWritableFile>* file, rocksdb::IODebugContext* debug);

  const std::string directory_;
  mutable std::mutex mutex_;
  bool has_spare_ = false;
  bool has_reserve_ = false;
  Status failure_;
  std::atomic<bool> has_failed_{false};  // failure_ is an error
  // Of the current log.
  Descriptor log_;
  std::string log_path_;
  Offset log_bytes_ = 0;
  Offset log_room_ = 0;
};

}  // namespace weir::storage::internal
