#include <weir/client/connection_file.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/os_error.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/config/toml.h>

namespace weir::client {

namespace {

constexpr std::int64_t kFileVersion = 1;
constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;  // a thousand servers need a tenth of it

Status io_error(const std::string& path, std::string_view what) {
  return os_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIoError,
                  concat("connection file ", path, ": ", what));
}

Status wrong(const std::string& path, std::string_view what) {
  return invalid_argument(concat("connection file ", path, ": ", what));
}

Result<net::Key> key_of(const std::string& path, const toml::table& table) {
  if (const auto text = table["key"].value<std::string>()) {
    if (auto key = net::Key::from_hex(*text)) return *std::move(key);
    return wrong(path, "`key` must have 64 hex digits");
  }
  if (const auto name = table["key_file"].value<std::string>()) {
    return net::Key::load((std::filesystem::path(path).parent_path() / *name).string(), net::Key::Holder::kClients);
  }
  return wrong(path, "it has neither `key` nor `key_file`");
}

Result<ConnectionFile> from_table(const std::string& path, const toml::table& table) {
  const auto version = table["version"].value<std::int64_t>();
  if (version != kFileVersion) {
    return wrong(path, concat("`version` is ", version.value_or(0), "; this program knows ", kFileVersion));
  }
  ConnectionFile file;
  WEIR_TRY(file.key, key_of(path, table));
  const toml::array* servers = table["servers"].as_array();
  if (servers == nullptr || servers->empty()) return wrong(path, "`servers` must be a list of addresses");
  for (const toml::node& node : *servers) {
    const auto address = node.value<std::string>();
    if (!address) return wrong(path, "`servers` must be a list of addresses");
    file.servers.push_back({*address});
  }
  return file;
}

// A name that is no connection file may be anything: a pipe that nobody writes to, a disk, a result of a terabyte.
Result<std::string> read_private(const std::string& path) {
  const Descriptor file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!file.is_open()) return io_error(path, "cannot open");
  struct ::stat info {};
  if (::fstat(file.get(), &info) != 0) return io_error(path, "cannot look at it");
  if (!S_ISREG(info.st_mode)) return wrong(path, "it is not an ordinary file");
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Status(ErrorCode::kPermission,
                  concat("connection file ", path, " is open to others than its owner; use chmod 600 and a new key"));
  }
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = uninterrupted([&] { return ::read(file.get(), buffer, sizeof buffer); });
    if (got < 0) return io_error(path, "cannot read");
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMostFileBytes) return wrong(path, concat("it has more than ", kMostFileBytes, " bytes"));
  }
}

// If not, errno says why.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = uninterrupted([&] { return ::write(descriptor, text.data(), text.size()); });
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return ::fsync(descriptor) == 0;
}

}  // namespace

Result<ConnectionFile> ConnectionFile::read(const std::string& path) {
  WEIR_TRY(const std::string text, read_private(path));
  const Result<toml::table> table = config::parse(text);
  return table.is_ok() ? from_table(path, *table) : wrong(path, table.status().message());
}

Status ConnectionFile::write(const std::string& path) const {
  toml::array addresses;
  for (const net::Address& server : servers) addresses.push_back(server.text);
  const toml::table table{
      {"version", kFileVersion}, {"key", key.for_clients().to_hex()}, {"servers", std::move(addresses)}};
  std::ostringstream text;
  text << table << '\n';

  const std::string temporary = concat(path, ".", ::getpid(), ".new");
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor < 0) return io_error(temporary, "cannot make");
  const bool is_written = write_all(descriptor, text.str());
  const bool is_closed = ::close(descriptor) == 0;
  if (is_written && is_closed && std::rename(temporary.c_str(), path.c_str()) == 0) return Status::ok();
  const int error = errno;
  ::unlink(temporary.c_str());
  return os_error(ErrorCode::kIoError, concat("connection file ", path, ": cannot write"), error);
}

Result<std::string> default_connection_file(const runtime::Settings& settings) {
  const auto below = [&settings](const char* variable, const char* name) -> std::optional<std::string> {
    const std::string folder = settings.get(variable);
    return folder.empty() ? std::nullopt : std::optional(folder + name);
  };
  if (const auto path = below("XDG_RUNTIME_DIR", "/weir/fs.toml")) return *path;
  if (const auto path = below("HOME", "/.weir/fs.toml")) return *path;
  return invalid_argument("no place for a connection file: set XDG_RUNTIME_DIR or HOME, or name the file");
}

}  // namespace weir::client
