#include <weir/cli/internal/fs_connect.h>

namespace weir::cli::internal {

void add_file_system(CLI::App& command, FileSystemOptions& options) {
  command
      .add_option("--fs", options.file_system,
                  "The file system: a connection file, or addresses [$WEIR_FS, or that of `weir up`]")
      ->type_name("FS");
  command.add_option("--timeout", options.timeout, "Seconds that a call to a server may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->type_name("S");
}

Result<client::FileSystem> connect(const FileSystemOptions& options, bool without_names) {
  client::ConnectOptions how;
  how.without_names = without_names;
  how.file_system = options.file_system;
  how.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1000));
  return client::FileSystem::connect(how);
}

std::string weir_path(const std::string& text) {
  static constexpr std::string_view kScheme = "weir:";
  std::string path = text.rfind(kScheme, 0) == 0 ? text.substr(kScheme.size()) : text;
  if (path.empty() || path[0] != '/') path.insert(path.begin(), '/');
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace weir::cli::internal
