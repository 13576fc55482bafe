#include <weir/cli/internal/fs_connect.h>

#include <filesystem>
#include <utility>

#include <weir/server/server.h>
#include <weir/storage/store_spec.h>

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

void add_verify_memory(CLI::App& command, bool& verifies) {
  command.add_flag("--verify-memory", verifies,
                   "Memory stores keep checksums of what was synced or closed, so that a read fails where a program "
                   "wrote to mapped memory through a wild pointer [$WEIR_VERIFY_MEMORY]");
}

Result<std::string> check_store(const std::string& store) {
  WEIR_TRY(storage::StoreSpec spec, storage::StoreSpec::parse(store));
  if (!spec.is_memory()) spec.directory = std::filesystem::absolute(spec.directory).string();
  return spec.text();
}

Status check_server_count(int servers) {
  if (servers >= 1 && servers <= kMostServers) return Status::ok();
  return out_of_range(concat("--servers ", servers, ": allowed are whole numbers from 1 to ", kMostServers));
}

Result<int> choose_server_count(const std::string& store, std::optional<int> given, int otherwise) {
  WEIR_TRY(const std::optional<std::uint32_t> made_by, server::servers_of(store));
  if (!made_by) return given.value_or(otherwise);
  if (!given || std::cmp_equal(*given, *made_by)) return static_cast<int>(*made_by);
  return invalid_argument(concat("--servers ", *given, ": the file system in ", store, " has ", *made_by,
                                 " servers; say --servers ", *made_by, ", or leave it out"));
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
