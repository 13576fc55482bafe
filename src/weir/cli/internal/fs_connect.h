#pragma once

// What the commands on files share: which file system is meant, and how its names are written.

#include <weir/cli/internal/command.h>
#include <weir/client/file_system.h>

namespace weir::cli::internal {

struct FileSystemOptions {
  std::string file_system;  ///< Empty: WEIR_FS, or the file that `weir up` writes.
  double timeout = 10;      ///< Seconds a call may take.
};

void add_file_system(CLI::App& command, FileSystemOptions& options);
/// `without_names`: also while server 0 is down; few things work then.
Result<client::FileSystem> connect(const FileSystemOptions& options, bool without_names = false);

/// Options of servers, for all commands that start some.
inline constexpr Offset kMostServers = 1024;
inline constexpr SizeRange kCapacityRange{Offset{1} << 20, kMaxBytes};
inline constexpr SizeRange kAheadRange{0, Offset{1} << 40};
void add_capacity(CLI::App& command, std::optional<Offset>& capacity);
void add_ahead(CLI::App& command, std::optional<Offset>& ahead);
void add_verify_memory(CLI::App& command, bool& verifies);
/// A storage::StoreSpec with its directory made absolute: servers run in another directory than their user.
/// \error kInvalidArgument
Result<std::string> check_store(const std::string& store);
Status check_server_count(int servers);
/// The number of servers that made the file system in `store`; if there is none yet, `given`, or else `otherwise`.
/// \error kInvalidArgument if `given` is another number: the message names the right one
Result<int> choose_server_count(const std::string& store, std::optional<int> given, int otherwise);

/// "/out" of "weir:/out", "out" or "/out": names in the file system are absolute.
std::string weir_path(const std::string& text);

/// A number, or a name that this host knows.  `command`: for messages.  \error kInvalidArgument
Result<std::uint32_t> user_of(std::string_view command, const std::string& text);

// One function for each file of subcommands.
void add_daemon_commands(CLI::App& app, Selection& selection);  // up, down, status
void add_name_commands(CLI::App& app, Selection& selection);    // ls, stat, du, mkdir, rm, mv, df
void add_owner_commands(CLI::App& app, Selection& selection);   // chmod, chown
void add_quota_command(CLI::App& app, Selection& selection);    // quota
void add_sync_command(CLI::App& app, Selection& selection);     // sync
void add_copy_commands(CLI::App& app, Selection& selection);    // put, get, cp, cat
void add_care_commands(CLI::App& app, Selection& selection);    // relayout, fsck

}  // namespace weir::cli::internal
