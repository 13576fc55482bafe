#include <weir/storage/internal/disk_files.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <weir/base/system_call.h>

namespace weir::storage::internal {
namespace {

struct Ending {
  FileKind kind;
  std::string_view text;
};
constexpr Ending kEndings[] = {{FileKind::kData, "data"},   {FileKind::kSums, "sums"},   {FileKind::kGone, "gone"},
                               {FileKind::kAbout, "about"}, {FileKind::kEmpty, "empty"}, {FileKind::kDraft, "draft"}};

// Reads a hexadecimal number and the point behind it off the front of `text`.
template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc{} || end == text.data() + text.size() || *end != '.') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return true;
}

std::string name_of(PartName part, FileKind kind) {
  const Ending& ending = kEndings[static_cast<std::size_t>(kind)];
  return fmt::format("{:x}.{:x}.{:x}.{}", part.id.file, part.id.element, part.part, ending.text);
}

}  // namespace

Result<Descriptor> open_file(const std::string& path, int flags) {
  Descriptor file{::open(path.c_str(), flags | O_CLOEXEC, 0600)};
  if (!file.is_open()) return os_error("open", path, errno);
  return file;
}

Result<std::optional<Descriptor>> open_if_exists(const std::string& path, int flags) {
  Result<Descriptor> file = open_file(path, flags);
  if (file.is_ok()) return std::optional<Descriptor>(std::move(*file));
  if (file.status().code() == ErrorCode::kNotFound) return std::optional<Descriptor>{};
  return file.status();
}

Result<struct stat> file_status(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return os_error("stat", path, errno);
  return status;
}

Status sync_file(int descriptor, const std::string& path) {
  return ::fdatasync(descriptor) == 0 ? Status::ok() : os_error("fdatasync", path, errno);
}

Status sync_directory(const std::string& path) {
  WEIR_TRY(const Descriptor directory, open_file(path, O_RDONLY | O_DIRECTORY));
  if (::fsync(directory.get()) != 0) return os_error("fsync", path, errno);
  return Status::ok();
}

Status make_durable_directory(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return Status::ok();
  const std::string above = std::filesystem::path(path).parent_path().string();
  if (!above.empty() && above != path) WEIR_RETURN_IF_ERROR(make_durable_directory(above));
  std::filesystem::create_directory(path, error);
  if (error) return os_error("make directory", path, error.value());
  return sync_directory(above.empty() ? "." : above);
}

Status write_all(int descriptor, const std::string& path, const void* bytes, std::size_t size, Offset offset) {
  const auto* from = static_cast<const std::byte*>(bytes);
  while (size > 0) {
    const ssize_t done = uninterrupted([&] { return ::pwrite(descriptor, from, size, offset); });
    if (done < 0) return os_error("write to", path, errno);
    from += done, offset += done, size -= static_cast<std::size_t>(done);
  }
  return Status::ok();
}

Status read_or_zero(int descriptor, const std::string& path, void* bytes, std::size_t size, Offset offset) {
  auto* to = static_cast<std::byte*>(bytes);
  while (size > 0) {
    const ssize_t done = uninterrupted([&] { return ::pread(descriptor, to, size, offset); });
    if (done < 0) return os_error("read from", path, errno);
    if (done == 0) {
      std::memset(to, 0, size);
      break;
    }
    to += done, offset += done, size -= static_cast<std::size_t>(done);
  }
  return Status::ok();
}

std::string folder_of(SubfileId id) {
  // Neighbours go to different folders; files with one subfile spread as well as one file with many.
  const std::uint64_t mixed = (id.file + (std::uint64_t{id.element} << 32)) * 0x9E3779B97F4A7C15U;
  return fmt::format("{:02x}", mixed >> 56);
}

std::string path_of(const std::string& directory, PartName part, FileKind kind) {
  return fmt::format("{}/{}/{}", directory, folder_of(part.id), name_of(part, kind));
}

std::optional<FileName> parse_file_name(std::string_view name) {
  FileName result;
  std::string_view rest = name;
  PartName& part = result.part;
  if (!take_number(rest, part.id.file) || !take_number(rest, part.id.element) || !take_number(rest, part.part) ||
      part.part < 0)
    return {};
  for (const Ending& ending : kEndings) {
    result.kind = ending.kind;
    // Made again and compared: leading zeros or capitals would be a second name for the same part.
    if (rest == ending.text && name_of(part, ending.kind) == name) return result;
  }
  return {};
}

std::string describe(SubfileId id) { return fmt::format("file {}, subfile {}", id.file, id.element); }

}  // namespace weir::storage::internal
