#include <weir/net/net.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <mutex>

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/os_error.h>
#include <weir/base/text.h>

namespace weir::net {

namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr char kContext[] = "weirkeys";
static_assert(crypto_kdf_KEYBYTES == kKeyBytes && sizeof kContext == crypto_kdf_CONTEXTBYTES + 1);

void start_sodium() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (sodium_init() < 0) std::abort();  // no source of random numbers: nothing can be trusted
  });
}

/// The machine (by the number of its boot) and the network namespace.
std::string host_of_this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code error;
  const std::filesystem::path space = std::filesystem::read_symlink("/proc/self/ns/net", error);
  return concat(boot, "/", space.string());
}

}  // namespace

Key Key::random() {
  start_sodium();
  Key key{std::vector<std::byte>(kKeyBytes), Holder::kServers};
  randombytes_buf(key.bytes.data(), key.bytes.size());
  return key;
}

Result<Key> Key::load(const std::string& path, Holder holder) {
  start_sodium();
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would wait for a writer
  if (!file.is_open()) return os_error(concat("open key ", path));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return os_error(concat("stat key ", path));
  if (!S_ISREG(status.st_mode))
    return invalid_argument(concat("key ", path, " is not a regular file: name the file that holds the key"));
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return Status(ErrorCode::kPermission, concat("key ", path, " is open to others: chmod 600 it, or make a new one"));
  std::array<std::byte, kKeyBytes + 1> bytes{};
  const ssize_t got = ::read(file.get(), bytes.data(), bytes.size());
  if (got < 0) return os_error(concat("read key ", path));
  if (static_cast<std::size_t>(got) != kKeyBytes)
    return corrupt(concat("key ", path, " does not have ", kKeyBytes, " bytes: make a new one"));
  return Key{{bytes.begin(), bytes.begin() + kKeyBytes}, holder};
}

Status Key::save(const std::string& path) const {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return os_error(concat("create key ", path));
  const ssize_t put = ::write(file.get(), bytes.data(), bytes.size());
  if (put != static_cast<ssize_t>(bytes.size()) || ::fsync(file.get()) != 0) {
    const Status status = os_error(concat("write key ", path));
    ::unlink(path.c_str());
    return status;
  }
  return Status::ok();
}

std::vector<std::byte> Key::derive(Purpose purpose) const {
  std::vector<std::byte> derived(kKeyBytes);
  if (bytes.size() != kKeyBytes) return {};
  crypto_kdf_derive_from_key(reinterpret_cast<unsigned char*>(derived.data()), derived.size(),
                             static_cast<std::uint64_t>(purpose), kContext,
                             reinterpret_cast<const unsigned char*>(bytes.data()));
  return derived;
}

Key Key::for_clients() const {
  return holder == Holder::kClients ? *this : Key{derive(Purpose::kClients), Holder::kClients};
}

std::string Key::to_hex() const {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  text.pop_back();
  return text;
}

std::optional<Key> Key::from_hex(std::string_view text) {
  Key key{std::vector<std::byte>(kKeyBytes), Holder::kClients};
  auto* const to = reinterpret_cast<unsigned char*>(key.bytes.data());
  std::size_t count = 0;
  const char* end = nullptr;
  const int failed = sodium_hex2bin(to, kKeyBytes, text.data(), text.size(), nullptr, &count, &end);
  if (failed != 0 || count != kKeyBytes || end != text.data() + text.size()) return std::nullopt;
  return key;
}

Identity Identity::of_this_process() {
  Identity identity;
  identity.uid = ::geteuid();
  identity.gid = ::getegid();
  const int count = ::getgroups(0, nullptr);
  if (count > 0) {
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    const int got = ::getgroups(count, groups.data());
    if (got > 0) identity.groups.assign(groups.begin(), groups.begin() + got);
  }
  identity.host = host_of_this_process();
  return identity;
}

Identity Identity::nobody() {
  constexpr std::uint32_t kNobody = 65534;
  Identity identity;
  identity.uid = kNobody;
  identity.gid = kNobody;
  return identity;
}

bool Identity::same_host() const { return host == host_of_this_process(); }

}  // namespace weir::net
