#pragma once

// A file of the local system, as copies read and write it.

#include <span>
#include <string>

#include <sys/stat.h>

#include <weir/base/checked.h>
#include <weir/base/descriptor.h>
#include <weir/base/result.h>

namespace weir::cli::internal {

class LocalFile {
 public:
  /// \error kNotFound, kExists, kPermission, kIoError
  static Result<LocalFile> open(const std::string& path, int flags, mode_t mode = 0666);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Result<struct stat> status() const;

  /// All of `buffer`.  \error kIoError also if the file ends before
  [[nodiscard]] Status read(Offset at, std::span<std::byte> buffer) const;
  /// What comes next, of files that cannot be read at offsets too: fills `buffer` unless the file ends.
  /// \returns how many bytes; fewer than asked for at the end.  An error with kInterrupted if a signal comes
  [[nodiscard]] Result<std::size_t> read_next(std::span<std::byte> buffer) const;
  [[nodiscard]] Status write(Offset at, std::span<const std::byte> buffer) const;
  /// Sets the size and makes all of it durable.
  [[nodiscard]] Status finish(Offset size) const;

 private:
  LocalFile(std::string path, Descriptor descriptor) : path_(std::move(path)), descriptor_(std::move(descriptor)) {}
  std::string path_;
  Descriptor descriptor_;
};

}  // namespace weir::cli::internal
