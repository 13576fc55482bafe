// weir chmod, chown

#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <grp.h>
#include <pwd.h>

#include <weir/cli/internal/copy_tree.h>
#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/mode_change.h>

namespace weir::cli::internal {
namespace {

using client::Entry;
using client::FileSystem;
using client::Stat;

struct OwnerOptions {
  FileSystemOptions file_system;
  std::string change;
  std::vector<std::string> paths;
  bool recursive = false;
};

/// Changes one file or directory, as it is now.
using Change = std::function<Status(const std::string& path, const Stat& now)>;

// Directories last, so that a mode which closes them does not end the walk.
Status change_tree(const FileSystem& fs, const std::string& path, bool recursive, const Change& change) {
  WEIR_TRY(const Stat now, fs.stat(path));
  if (recursive && now.is_directory) {
    WEIR_TRY(const std::vector<Entry> entries, fs.list(path));
    for (const Entry& entry : entries) {
      if (!is_entry_name(entry.name)) continue;
      const Status status = change_tree(fs, join_path(path, entry.name), true, change);
      if (!status.is_ok() && status.code() != ErrorCode::kNotFound) return status;  // removed since it was listed
    }
  }
  return change(path, now);
}

Result<int> change_all(const OwnerOptions& options, const FileSystem& fs, const Change& change) {
  for (const std::string& text : options.paths) {
    WEIR_RETURN_IF_ERROR(change_tree(fs, weir_path(text), options.recursive, change));
  }
  return kExitOk;
}

Result<int> change_mode(const OwnerOptions& options, Console&) {
  WEIR_TRY(const ModeChange change, ModeChange::parse(options.change));
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  return change_all(options, fs, [&](const std::string& path, const Stat& now) {
    return fs.set_mode(path, change.apply(now.mode, now.is_directory));
  });
}

// A number, or a name that `find` knows.
template <typename Find>
Result<std::uint32_t> id_of(std::string_view command, std::string_view what, const std::string& text, Find find) {
  std::uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error == std::errc() && end == text.data() + text.size()) return id;
  if (const std::optional<std::uint32_t> found = find(text.c_str())) return *found;
  return invalid_argument(concat(command, ": this host knows no ", what, " '", text, "': give its number"));
}

Result<std::uint32_t> group_of(const std::string& text) {
  return id_of("chown", "group", text, [](const char* name) -> std::optional<std::uint32_t> {
    const group* const entry = ::getgrnam(name);
    return entry == nullptr ? std::nullopt : std::optional<std::uint32_t>(entry->gr_gid);
  });
}

Result<int> change_owner(const OwnerOptions& options, Console&) {
  const std::size_t colon = options.change.find(':');
  const std::string user = options.change.substr(0, colon);
  const std::string group = colon == std::string::npos ? "" : options.change.substr(colon + 1);
  if (user.empty() && group.empty()) {
    return invalid_argument(concat("chown: '", options.change, "' names nobody: write USER, USER:GROUP or :GROUP"));
  }
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  if (!user.empty()) {
    WEIR_TRY(uid, user_of("chown", user));
  }
  if (!group.empty()) {
    WEIR_TRY(gid, group_of(group));
  }
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  return change_all(options, fs, [&](const std::string& path, const Stat& now) {
    return fs.set_owner(path, uid.value_or(now.uid), gid.value_or(now.gid));
  });
}

void declare(CLI::App& command, OwnerOptions& options, const char* name, const char* meaning) {
  command.add_option(name, options.change, meaning)->required();
  command.add_option("PATH", options.paths, "Files and directories")->required();
  command.add_flag("-R,--recursive", options.recursive, "Those below directories too");
  add_file_system(command, options.file_system);
}

}  // namespace

Result<std::uint32_t> user_of(std::string_view command, const std::string& text) {
  return id_of(command, "user", text, [](const char* name) -> std::optional<std::uint32_t> {
    const passwd* const entry = ::getpwnam(name);
    return entry == nullptr ? std::nullopt : std::optional<std::uint32_t>(entry->pw_uid);
  });
}

void add_owner_commands(CLI::App& app, Selection& selection) {
  add_command<OwnerOptions>(
      app, selection, "chmod", "Change who may read and write files",
      "Programs that have a file open keep the rights that they had when they opened it.\n\n"
      "Examples:\n  weir chmod 640 /out.dat\n  weir chmod -R g+rX,o= /results\n",
      [](CLI::App& command, OwnerOptions& options) {
        declare(command, options, "MODE", "Octal digits, or changes: [ugoa...](+|-|=)[rwxXst...],...");
      },
      change_mode);
  add_command<OwnerOptions>(
      app, selection, "chown", "Change the owner and the group of files",
      "Only root gives files away; owners may choose among their own groups.\n\n"
      "Examples:\n  weir chown ada:physics /out.dat\n  weir chown -R :physics /results\n",
      [](CLI::App& command, OwnerOptions& options) {
        declare(command, options, "OWNER", "USER, USER:GROUP or :GROUP; names or numbers");
      },
      change_owner);
}

}  // namespace weir::cli::internal
