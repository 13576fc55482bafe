#pragma once

// Names of the disk store's files, and descriptors.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include <weir/base/descriptor.h>
#include <weir/base/os_error.h>
#include <weir/base/result.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

/// open(2) with O_CLOEXEC; errno in the error.
Result<Descriptor> open_file(const std::string& path, int flags);
/// The same; nothing if there is no such file.
Result<std::optional<Descriptor>> open_if_exists(const std::string& path, int flags);

Result<struct stat> file_status(int descriptor, const std::string& path);

/// Makes the contents of a file durable.
Status sync_file(int descriptor, const std::string& path);
/// Makes the entries of a directory durable.
Status sync_directory(const std::string& path);
/// Makes a directory, and those above it that are missing; each is durable in the one above it.  Nothing if it is
/// there.
Status make_durable_directory(const std::string& path);

Status write_all(int descriptor, const std::string& path, const void* bytes, std::size_t size, Offset offset);
/// Zeros where the file has ended.
Status read_or_zero(int descriptor, const std::string& path, void* bytes, std::size_t size, Offset offset);

struct PartName {
  SubfileId id;
  Offset part = 0;
  friend auto operator<=>(const PartName&, const PartName&) = default;
};

/// What the end of a file's name says.
enum class FileKind : std::uint8_t {
  kData,
  kSums,
  kGone,
  kAbout,  ///< What is known of its file, of a subfile that was written (part 0 only).
  kEmpty,  ///< The same, of one that was never written.
  kDraft,  ///< A new kAbout or kEmpty until it has its name.
};

struct FileName {
  PartName part;
  FileKind kind = FileKind::kData;
};

/// One of 256 folders, "00" to "ff"; the same for all parts of a subfile.
std::string folder_of(SubfileId id);

/// E.g. "3f/2a.0.0.data": file, element and part in hexadecimal, no leading zeros.
std::string path_of(const std::string& directory, PartName part, FileKind kind);

/// Nothing if the store does not name its files so.
std::optional<FileName> parse_file_name(std::string_view name);

/// "file 42, subfile 3", for messages.
std::string describe(SubfileId id);

}  // namespace weir::storage::internal
