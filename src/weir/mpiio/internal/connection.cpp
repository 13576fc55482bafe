#include <weir/mpiio/internal/connection.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <string_view>

#include <weir/base/environment.h>
#include <weir/mpiio/internal/running.h>

namespace weir::mpiio::internal {

namespace {

constexpr std::string_view kScheme = "weir:";

std::string with_slash(std::string_view path) {
  std::string out(path);
  if (out.empty() || out.front() != '/') out.insert(out.begin(), '/');
  return out;
}

std::filesystem::path normal(const std::filesystem::path& path) {
  std::error_code error;
  auto absolute = std::filesystem::absolute(path, error).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();  // "/a/" is "/a"
}

}  // namespace

Result<client::FileSystem> file_system() {
  static std::mutex mutex;
  static client::FileSystem* connected = nullptr;
  const std::lock_guard lock(mutex);
  if (connected == nullptr) {
    client::ConnectOptions options;
    options.direct = environment("WEIR_DIRECT") != "off";
    // A server that is gone is noticed at once.  One that is slow, on a machine that has too much to do, gets half the
    // time that ranks get: an error would end the program.
    options.timeout = std::max<std::chrono::milliseconds>(options.timeout, longest_wait() / 2);
    WEIR_TRY(client::FileSystem fresh, client::FileSystem::connect(options));
    connected = new client::FileSystem(std::move(fresh));
  }
  return *connected;
}

std::optional<std::string> path_of(const char* name) {
  if (name == nullptr) return std::nullopt;
  const std::string_view text(name);
  if (text.starts_with(kScheme)) return with_slash(text.substr(kScheme.size()));
  const std::string prefix = environment("WEIR_PREFIX");
  if (prefix.empty() || text.empty()) return std::nullopt;
  const auto below = normal(text).lexically_relative(normal(prefix));
  if (below.empty() || below == "." || *below.begin() == "..") return std::nullopt;
  return with_slash(below.string());
}

}  // namespace weir::mpiio::internal
