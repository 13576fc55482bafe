#pragma once

// The directory of a disk store: its lock, its settings, its folders.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/statvfs.h>

#include <weir/base/result.h>
#include <weir/storage/internal/disk_files.h>
#include <weir/storage/label.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

/// Locked as long as it lives.
class DiskDirectory {
 public:
  /// `label`: of a new one.
  static Result<DiskDirectory> open_or_create(const std::string& path, Offset part_bytes, const Label& label,
                                              runtime::Random& random);
  /// \error kNotFound if there is no store
  static Result<DiskDirectory> open(const std::string& path);
  /// Of a store that may be in use; nothing if there is none.  \error kCorrupt
  static Result<std::optional<Label>> read_label(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] Offset part_bytes() const noexcept { return part_bytes_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  /// \threadsafety Safe from any thread.
  [[nodiscard]] Label label() const {
    const std::lock_guard lock(*mutex_);
    return label_;
  }
  /// Durable when it returns.
  Status set_label(const Label& label);

  /// Durable when it returns.
  Status save_fences(std::span<const KeptFence> fences) const;
  /// \error kCorrupt
  Result<std::vector<KeptFence>> load_fences() const;

  Result<struct statvfs> file_system() const;
  /// The number of its disk on this host, never 0.
  Result<std::uint64_t> disk() const;
  /// Makes all that was written to it durable, of others too.
  Status sync_file_system() const;

  /// Called with the path of a file and what its name says: nothing if it is not one of the store's.
  using Visit = std::function<void(const std::string& path, const std::optional<FileName>& name)>;
  Status visit_files(const Visit& visit) const;
  /// Of one folder, which need not exist.
  Status visit_folder(const std::string& folder, const Visit& visit) const;

 private:
  explicit DiskDirectory(std::string path) : path_(std::move(path)) {}

  Status lock(int flags);
  Result<bool> load();
  Status parse(const std::string& text);
  Status save() const;
  // Whole or not at all, and durable when it returns.
  Status replace(const std::string& path, const std::string& text) const;

  std::string path_;
  Descriptor lock_;
  Offset part_bytes_ = 0;
  std::uint64_t id_ = 0;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  Label label_;  // guarded by mutex_
};

}  // namespace weir::storage::internal
