// weir ls, stat, mkdir, rm, mv, df

#include <ctime>

#include <fmt/format.h>

#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/json_text.h>
#include <weir/cli/internal/progress.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

using client::Entry;
using client::FileSystem;
using client::Stat;
using client::TargetUsage;

struct PathOptions {
  FileSystemOptions file_system;
  std::string path = "/";
  bool is_long = false;
  bool json = false;
};

struct PathsOptions {
  FileSystemOptions file_system;
  std::vector<std::string> paths;
  bool recursive = false;
  bool parents = false;
  bool force = false;
};

struct MoveOptions {
  FileSystemOptions file_system;
  std::string from;
  std::string to;
};

struct UsageOptions {
  FileSystemOptions file_system;
  bool json = false;
};

std::string time_text(std::int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string join(const std::string& folder, const std::string& name) {
  return folder == "/" ? concat("/", name) : concat(folder, "/", name);
}

// ---- ls ------------------------------------------------------------------------------------------------------------

Status list_long(const FileSystem& fs, const std::string& folder, const Entry& entry, std::ostream& out) {
  WEIR_TRY(const Stat stat, fs.stat(join(folder, entry.name)));
  out << fmt::format("{}{:04o} {:>5} {:>5} {:>14} {} {}{}\n", stat.is_directory ? 'd' : '-', stat.mode, stat.uid,
                     stat.gid, stat.size, time_text(stat.changed_ns), entry.name, stat.is_directory ? "/" : "");
  return Status::ok();
}

void list_json(const std::vector<Entry>& entries, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_array();
  for (const Entry& entry : entries) {
    json.begin_object().field("name", std::string_view(entry.name)).field("directory", entry.is_directory).end_object();
  }
  json.end_array();
  out << text << '\n';
}

Result<int> list(const PathOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  const std::string path = weir_path(options.path);
  WEIR_TRY(const std::vector<Entry> entries, fs.list(path));
  if (options.json) {
    list_json(entries, console.out);
    return kExitOk;
  }
  for (const Entry& entry : entries) {
    if (options.is_long) {
      WEIR_RETURN_IF_ERROR(list_long(fs, path, entry, console.out));
    } else {
      console.out << entry.name << (entry.is_directory ? "/\n" : "\n");
    }
  }
  return kExitOk;
}

// ---- stat ----------------------------------------------------------------------------------------------------------

void stat_json(const std::string& path, const Stat& stat, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("path", std::string_view(path)).field("directory", stat.is_directory);
  json.field("mode", static_cast<Offset>(stat.mode)).field("uid", static_cast<Offset>(stat.uid));
  json.field("gid", static_cast<Offset>(stat.gid)).field("size", stat.size);
  json.field("created_ns", stat.created_ns).field("changed_ns", stat.changed_ns);
  if (stat.layout) json.field("layout", std::string_view(layout::print(*stat.layout)));
  json.key("subfiles").begin_array();
  for (const Stat::Subfile& subfile : stat.subfiles) {
    json.begin_object().field("target", static_cast<Offset>(subfile.target));
    json.field("address", std::string_view(subfile.address)).field("length", subfile.length);
    json.field("stored_bytes", subfile.stored_bytes).end_object();
  }
  json.end_array().end_object();
  out << text << '\n';
}

void stat_text(const std::string& path, const Stat& stat, std::ostream& out) {
  out << fmt::format("{}: {}, mode {:04o}, owner {}, group {}\n", path, stat.is_directory ? "directory" : "file",
                     stat.mode, stat.uid, stat.gid);
  out << fmt::format("  created {}, changed {} (UTC)\n", time_text(stat.created_ns), time_text(stat.changed_ns));
  if (!stat.layout) return;
  out << fmt::format("  {} bytes, layout {}\n", stat.size, shorten(layout::print(*stat.layout), 200));
  Offset stored = 0;
  Offset length = 0;
  out << fmt::format("  {:>8} {:>8} {:<24} {:>16} {:>16}\n", "subfile", "target", "address", "length", "stored");
  constexpr std::size_t kMost = 32;
  for (std::size_t i = 0; i < stat.subfiles.size(); ++i) {
    const Stat::Subfile& subfile = stat.subfiles[i];
    stored += subfile.stored_bytes;
    length += subfile.length;
    if (i < kMost)
      out << fmt::format("  {:>8} {:>8} {:<24} {:>16} {:>16}\n", i, subfile.target, subfile.address, subfile.length,
                         subfile.stored_bytes);
  }
  if (stat.subfiles.size() > kMost) out << fmt::format("  ... and {} more\n", stat.subfiles.size() - kMost);
  const Offset holes = std::max<Offset>(length - stored, 0);
  out << fmt::format("  stored {}, holes {}\n", bytes_text(static_cast<double>(stored)),
                     holes == 0 ? "none" : "at least " + bytes_text(static_cast<double>(holes)));
}

Result<int> stat(const PathOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  const std::string path = weir_path(options.path);
  WEIR_TRY(const Stat found, fs.stat(path));
  if (options.json) {
    stat_json(path, found, console.out);
  } else {
    stat_text(path, found, console.out);
  }
  return kExitOk;
}

// ---- mkdir, rm, mv -------------------------------------------------------------------------------------------------

Status make_parents(const FileSystem& fs, const std::string& path) {
  for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const Status status = fs.make_directory(path.substr(0, end));
    if (!status.is_ok() && status.code() != ErrorCode::kExists) return status;
  }
  return Status::ok();
}

Result<int> make_directories(const PathsOptions& options, Console&) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  for (const std::string& text : options.paths) {
    const std::string path = weir_path(text);
    if (options.parents) WEIR_RETURN_IF_ERROR(make_parents(fs, path));
    const Status status = fs.make_directory(path);
    if (status.is_ok() || (options.parents && status.code() == ErrorCode::kExists)) continue;
    return status;
  }
  return kExitOk;
}

Status remove_tree(const FileSystem& fs, const std::string& path) {
  const Status status = fs.remove(path);
  if (status.code() != ErrorCode::kIsDirectory) return status;
  WEIR_TRY(const std::vector<Entry> entries, fs.list(path));
  for (const Entry& entry : entries) WEIR_RETURN_IF_ERROR(remove_tree(fs, join(path, entry.name)));
  return path == "/" ? Status::ok() : fs.remove_directory(path);
}

Result<int> remove(const PathsOptions& options, Console&) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  for (const std::string& text : options.paths) {
    const std::string path = weir_path(text);
    const Status status = options.recursive ? remove_tree(fs, path) : fs.remove(path);
    if (status.is_ok() || (options.force && status.code() == ErrorCode::kNotFound)) continue;
    if (status.code() == ErrorCode::kIsDirectory) {
      return Status(status.code(), concat(path, " is a directory: add -r to remove it with all that it holds"));
    }
    return status;
  }
  return kExitOk;
}

Result<int> move(const MoveOptions& options, Console&) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  const std::string from = weir_path(options.from);
  std::string to = weir_path(options.to);
  const Result<Stat> target = fs.stat(to);
  if (target.is_ok() && target->is_directory) to = join(to, from.substr(from.rfind('/') + 1));
  WEIR_RETURN_IF_ERROR(fs.rename(from, to));
  return kExitOk;
}

// ---- df ------------------------------------------------------------------------------------------------------------

Result<int> show_usage(const UsageOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  WEIR_TRY(const std::vector<TargetUsage> targets, fs.usage());
  if (options.json) {
    std::string text;
    JsonWriter json(text);
    json.begin_array();
    for (const TargetUsage& one : targets) {
      json.begin_object()
          .field("target", static_cast<Offset>(one.target))
          .field("address", std::string_view(one.address));
      json.field("store", std::string_view(one.store)).field("capacity_bytes", one.capacity_bytes);
      json.field("used_bytes", one.used_bytes).field("subfiles", one.subfiles).end_object();
    }
    json.end_array();
    console.out << text << '\n';
    return kExitOk;
  }
  console.out << fmt::format("{:>6} {:<24} {:<20} {:>12} {:>12} {:>10}\n", "target", "address", "store", "capacity",
                             "used", "subfiles");
  for (const TargetUsage& one : targets) {
    console.out << fmt::format("{:>6} {:<24} {:<20} {:>12} {:>12} {:>10}\n", one.target, one.address, one.store,
                               bytes_text(static_cast<double>(one.capacity_bytes)),
                               bytes_text(static_cast<double>(one.used_bytes)), one.subfiles);
  }
  return kExitOk;
}

void declare_path(CLI::App& command, PathOptions& options) {
  command.add_option("PATH", options.path, "The file or directory")->required();
  add_file_system(command, options.file_system);
  add_json(command, options.json);
}

}  // namespace

void add_name_commands(CLI::App& app, Selection& selection) {
  add_command<PathOptions>(
      app, selection, "ls", "List a directory", "Example:\n  weir ls -l /results\n",
      [](CLI::App& command, PathOptions& options) {
        command.add_option("PATH", options.path, "The directory")->capture_default_str();
        command.add_flag("-l,--long", options.is_long, "With mode, owner, size and time");
        add_file_system(command, options.file_system);
        add_json(command, options.json);
      },
      list);
  add_command<PathOptions>(app, selection, "stat", "Layout, sizes per target and holes of a file",
                           "Example:\n  weir stat /out.dat\n", declare_path, stat);
  add_command<PathsOptions>(
      app, selection, "mkdir", "Make directories", "Example:\n  weir mkdir -p /results/run7\n",
      [](CLI::App& command, PathsOptions& options) {
        command.add_option("PATH", options.paths, "The directories")->required();
        command.add_flag("-p,--parents", options.parents, "Those above too; it is no error if they exist");
        add_file_system(command, options.file_system);
      },
      make_directories);
  add_command<PathsOptions>(
      app, selection, "rm", "Remove files", "Example:\n  weir rm -r /results\n",
      [](CLI::App& command, PathsOptions& options) {
        command.add_option("PATH", options.paths, "What to remove")->required();
        command.add_flag("-r,--recursive", options.recursive, "Directories too, with all that they hold");
        command.add_flag("-f,--force", options.force, "It is no error if there is no such file");
        add_file_system(command, options.file_system);
      },
      remove);
  add_command<MoveOptions>(
      app, selection, "mv", "Rename a file or directory", "Example:\n  weir mv /new.dat /out.dat\n",
      [](CLI::App& command, MoveOptions& options) {
        command.add_option("FROM", options.from, "Its name")->required();
        command.add_option("TO", options.to, "Its new name, or a directory to move it into")->required();
        add_file_system(command, options.file_system);
      },
      move);
  add_command<UsageOptions>(
      app, selection, "df", "Room on every target", "Example:\n  weir df\n",
      [](CLI::App& command, UsageOptions& options) {
        add_file_system(command, options.file_system);
        add_json(command, options.json);
      },
      show_usage);
}

}  // namespace weir::cli::internal
