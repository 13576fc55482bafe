#include <weir/cli/internal/fs_connect.h>

namespace weir::cli::internal {

void add_file_system(CLI::App& command, FileSystemOptions& options) {
  command
      .add_option("--fs", options.file_system,
                  "The file system: a connection file, or addresses [$WEIR_FS, or that of `weir up`]")
      ->type_name("FS");
  add_decimal(command, "--timeout", options.timeout, 0.001, 86400, "Seconds that a call to a server may take [10]");
}

void add_capacity(CLI::App& command, std::optional<Offset>& capacity) {
  add_size(command, "--capacity", capacity, "Most bytes of each memory store [its share of half of the memory]",
           kCapacityRange);
}

void add_ahead(CLI::App& command, std::optional<Offset>& ahead) {
  add_size(command, "--ahead", ahead,
           "Most memory that each memory store makes ready ahead of use, so that new files are written faster [164M]; "
           "0: none",
           kAheadRange);
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
