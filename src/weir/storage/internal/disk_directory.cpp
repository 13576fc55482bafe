#include <weir/storage/internal/disk_directory.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <ios>
#include <sstream>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <weir/storage/internal/checked_text.h>
#include <weir/storage/internal/disk_sums.h>

namespace weir::storage::internal {
namespace {

constexpr std::string_view kVersionLine = "weir disk store, version 3\n";
constexpr Offset kMostFencesBytes = Offset{64} << 20;
constexpr std::size_t kMostSettingsBytes = 4096;
constexpr int kFolders = 256;  // 00 to ff

std::string settings_path(const std::string& directory) { return directory + "/settings"; }
std::string fences_path(const std::string& directory) { return directory + "/fences"; }

bool has_folders(const std::string& directory) {
  for (int folder = 0; folder < kFolders; ++folder) {
    std::error_code error;
    if (std::filesystem::is_directory(fmt::format("{}/{:02x}", directory, folder), error)) return true;
  }
  return false;
}

}  // namespace

Result<DiskDirectory> DiskDirectory::open_or_create(const std::string& path, Offset part_bytes, const Label& label,
                                                    runtime::Random& random) {
  if (part_bytes < kBlockBytes || part_bytes % kBlockBytes != 0) {
    return invalid_argument(fmt::format("open disk store {}: part_bytes is {}; it must be a multiple of {}", path,
                                        part_bytes, kBlockBytes));
  }
  WEIR_RETURN_IF_ERROR(make_durable_directory(path));
  DiskDirectory directory(path);
  WEIR_RETURN_IF_ERROR(directory.lock(O_RDWR | O_CREAT));
  WEIR_TRY(const bool is_store, directory.load());
  if (!is_store) {
    directory.part_bytes_ = part_bytes;
    directory.id_ = random.id();
    directory.label_ = label;
    WEIR_RETURN_IF_ERROR(directory.save());
  }
  return directory;
}

Result<std::optional<Label>> DiskDirectory::read_label(const std::string& path) {
  DiskDirectory directory(path);
  WEIR_TRY(const bool is_store, directory.load());
  return is_store ? std::optional(directory.label_) : std::nullopt;
}

Result<DiskDirectory> DiskDirectory::open(const std::string& path) {
  DiskDirectory directory(path);
  WEIR_RETURN_IF_ERROR(directory.lock(O_RDONLY));
  WEIR_TRY(const bool is_store, directory.load());
  if (!is_store) return Status(ErrorCode::kNotFound, fmt::format("{} holds no disk store: no file 'settings'", path));
  return directory;
}

Status DiskDirectory::lock(int flags) {
  const std::string path = path_ + "/lock";
  WEIR_TRY(lock_, open_file(path, flags));
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return Status::ok();
  if (errno != EWOULDBLOCK) return os_error("lock", path, errno);
  return {ErrorCode::kUnavailable,
          fmt::format("disk store {} is in use: another server has locked {}; stop it, or use another directory", path_,
                      path)};
}

// False if there are none.
Result<bool> DiskDirectory::load() {
  const std::string path = settings_path(path_);
  WEIR_TRY(const std::optional<Descriptor> file, open_if_exists(path, O_RDONLY));
  if (!file && has_folders(path_)) {
    return corrupt(
        fmt::format("disk store {}: the file 'settings' is missing, though there are folders of a store; "
                    "restore it (see \"The disk store\" in docs/formats.md)",
                    path_));
  }
  if (!file) return false;
  std::string text(kMostSettingsBytes, '\0');
  WEIR_RETURN_IF_ERROR(read_or_zero(file->get(), path, text.data(), text.size(), 0));
  text.resize(text.find('\0') == std::string::npos ? text.size() : text.find('\0'));
  if (text.starts_with("weir disk store, version ") && !text.starts_with(kVersionLine)) {
    return corrupt(
        fmt::format("disk store {} is of another version than this program reads (3): {} begins with \"{}\"; copy its "
                    "files out with the release of Weir that made it",
                    path_, path, text.substr(0, text.find('\n'))));
  }
  if (const Status status = parse(text); !status.is_ok()) {
    return corrupt(fmt::format("{} is damaged ({}); restore it (see \"The disk store\" in docs/formats.md)", path,
                               status.message()));
  }
  return true;
}

Status DiskDirectory::parse(const std::string& text) {
  WEIR_TRY(const std::string_view checked, check_checksum(text));
  const std::string lines(checked);
  long long part_bytes = 0;
  unsigned long long id = 0;
  int end = -1;
  const int found =
      std::sscanf(lines.c_str(), "weir disk store, version 3\npart_bytes %lld\nid %16llx\n%n", &part_bytes, &id, &end);
  if (found != 2 || end < 0 || id == 0 || part_bytes < kBlockBytes || part_bytes > kMaxBytes ||
      part_bytes % kBlockBytes != 0) {
    return corrupt("its lines make no sense");
  }
  WEIR_TRY(label_, parse_label_lines(checked.substr(static_cast<std::size_t>(end))));
  part_bytes_ = part_bytes;
  id_ = id;
  return Status::ok();
}

// Before there is anything else.
Status DiskDirectory::save() const {
  return replace(settings_path(path_), add_checksum(fmt::format("{}part_bytes {}\nid {:016x}\n{}", kVersionLine,
                                                                part_bytes_, id_, label_lines(label_))));
}

Status DiskDirectory::set_label(const Label& label) {
  const auto keep = [this](const Label& one) {
    const std::lock_guard lock(*mutex_);
    label_ = one;
  };
  const Label before = label_;
  keep(label);
  Status status = save();
  if (!status.is_ok()) keep(before);
  return status;
}

Status DiskDirectory::save_fences(std::span<const KeptFence> fences) const {
  std::string text;
  for (const KeptFence& fence : fences)
    text += fmt::format("{:x} {:x} {:x}\n", fence.id.file, fence.id.element, fence.token);
  return replace(fences_path(path_), text);
}

Result<std::vector<KeptFence>> DiskDirectory::load_fences() const {
  const std::string path = fences_path(path_);
  WEIR_TRY(const std::optional<Descriptor> file, open_if_exists(path, O_RDONLY));
  std::vector<KeptFence> fences;
  if (!file) return fences;
  WEIR_TRY(const struct stat status, file_status(file->get(), path));
  if (status.st_size > kMostFencesBytes) {
    return corrupt(fmt::format("{} is damaged: it is too long; if no relayout was interrupted, remove it", path));
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  WEIR_RETURN_IF_ERROR(read_or_zero(file->get(), path, text.data(), text.size(), 0));
  std::istringstream lines(text);
  lines >> std::hex;
  for (KeptFence fence; lines >> std::ws && !lines.eof();) {
    if (!(lines >> fence.id.file >> fence.id.element >> fence.token)) {
      return corrupt(fmt::format("{} is damaged; if no relayout was interrupted, remove it", path));
    }
    fences.push_back(fence);
  }
  return fences;
}

Status DiskDirectory::replace(const std::string& path, const std::string& text) const {
  const std::string draft = path + ".new";
  WEIR_TRY(const Descriptor file, open_file(draft, O_WRONLY | O_CREAT | O_TRUNC));
  WEIR_RETURN_IF_ERROR(write_all(file.get(), draft, text.data(), text.size(), 0));
  if (::fsync(file.get()) != 0) return os_error("fsync", draft, errno);
  if (::rename(draft.c_str(), path.c_str()) != 0) return os_error("make", path, errno);
  return sync_directory(path_);
}

Result<struct statvfs> DiskDirectory::file_system() const {
  struct statvfs system {};
  if (::statvfs(path_.c_str(), &system) != 0) return os_error("statvfs", path_, errno);
  return system;
}

Result<std::uint64_t> DiskDirectory::disk() const {
  struct stat status {};
  if (::fstat(lock_.get(), &status) != 0) return os_error("fstat", path_, errno);
  return std::uint64_t{status.st_dev} | std::uint64_t{1} << 63;
}

Status DiskDirectory::sync_file_system() const {
  if (::syncfs(lock_.get()) != 0) return os_error("syncfs", path_, errno);
  return Status::ok();
}

Status DiskDirectory::visit_files(const Visit& visit) const {
  for (int folder = 0; folder < kFolders; ++folder) {
    WEIR_RETURN_IF_ERROR(visit_folder(fmt::format("{:02x}", folder), visit));
  }
  return Status::ok();
}

Status DiskDirectory::visit_folder(const std::string& folder, const Visit& visit) const {
  const std::string path = path_ + "/" + folder;
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::optional<FileName> parsed = parse_file_name(name);
    if (parsed && folder_of(parsed->part.id) != folder) parsed.reset();
    visit(entry->path().string(), parsed);
  }
  if (error && error != std::errc::no_such_file_or_directory) return os_error("list", path, error.value());
  return Status::ok();
}

}  // namespace weir::storage::internal
