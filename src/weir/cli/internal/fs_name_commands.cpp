// weir ls, stat, du, mkdir, rm, mv, df

#include <ctime>
#include <map>

#include <fmt/format.h>

#include <weir/base/json_text.h>
#include <weir/cli/internal/copy_tree.h>
#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/printable.h>
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
  std::string path;
  bool json = false;
};

struct ListOptions {
  FileSystemOptions file_system;
  std::vector<std::string> paths;
  bool is_long = false;
  bool recursive = false;
  bool json = false;
};

struct DiskUseOptions {
  FileSystemOptions file_system;
  std::vector<std::string> paths;
  bool all = false;
  bool summarize = false;
  bool bytes = false;
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

// ---- ls ------------------------------------------------------------------------------------------------------------

// A name to be listed; what it is comes along if it was asked for.
struct Listed {
  std::string path;
  std::string name;  ///< As shown: of a directory's entry without that directory.
  bool is_directory = false;
  std::optional<Stat> stat;
};

class Lister {
 public:
  Lister(const FileSystem& fs, const ListOptions& options, Console& console)
      : fs_(fs), options_(options), console_(console), json_(text_) {}

  Result<int> run() {
    std::vector<std::string> paths = options_.paths;
    if (paths.empty()) paths.emplace_back("/");
    if (options_.json) json_.begin_array();
    has_titles_ = options_.recursive || paths.size() > 1;
    for (const std::string& text : paths) WEIR_RETURN_IF_ERROR(list_argument(weir_path(text)));
    if (options_.json) {
      json_.end_array();
      console_.out << text_ << '\n';
    }
    return kExitOk;
  }

 private:
  Status list_argument(const std::string& path) {
    WEIR_TRY(const Stat found, fs_.stat(path));
    if (found.is_directory) return list_directory(path);
    show({path, path, false, found});
    return Status::ok();
  }

  Status list_directory(const std::string& path) {
    WEIR_TRY(const std::vector<Entry> entries, fs_.list(path));
    if (has_titles_ && !options_.json) console_.out << (is_first_ ? "" : "\n") << printable(path) << ":\n";
    is_first_ = false;
    for (const Entry& entry : entries) {
      Listed one{join_path(path, entry.name), entry.name, entry.is_directory, std::nullopt};
      if (options_.is_long) {
        const Result<Stat> found = fs_.stat(one.path);
        if (!found.is_ok() && found.status().code() == ErrorCode::kNotFound) continue;  // removed since it was listed
        WEIR_RETURN_IF_ERROR(found.status());
        one.stat = *found;
      }
      show(one);
    }
    for (const Entry& entry : entries) {
      if (!options_.recursive || !entry.is_directory || !is_entry_name(entry.name)) continue;
      const Status status = list_directory(join_path(path, entry.name));
      if (!status.is_ok() && status.code() != ErrorCode::kNotFound) return status;
    }
    return Status::ok();
  }

  void show(const Listed& one) {
    if (options_.json) {
      json_.begin_object().field("name", std::string_view(one.name)).field("directory", one.is_directory);
      if (options_.recursive) json_.field("path", std::string_view(one.path));
      if (one.stat && options_.is_long) {
        json_.field("mode", static_cast<Offset>(one.stat->mode)).field("uid", static_cast<Offset>(one.stat->uid));
        json_.field("gid", static_cast<Offset>(one.stat->gid)).field("size", one.stat->size);
        json_.field("changed_ns", one.stat->changed_ns);
      }
      json_.end_object();
      return;
    }
    if (one.stat && options_.is_long) {
      console_.out << fmt::format("{}{:04o} {:>5} {:>5} {:>14} {} ", one.is_directory ? 'd' : '-', one.stat->mode,
                                  one.stat->uid, one.stat->gid, one.stat->size, time_text(one.stat->changed_ns));
    }
    console_.out << printable(one.name) << (one.is_directory ? "/\n" : "\n");
    is_first_ = false;
  }

  const FileSystem& fs_;
  const ListOptions& options_;
  Console& console_;
  std::string text_;
  JsonWriter json_;
  bool has_titles_ = false;
  bool is_first_ = true;
};

Result<int> list(const ListOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  return Lister(fs, options, console).run();
}

// ---- du ------------------------------------------------------------------------------------------------------------

struct DiskUse {
  Offset size = 0;    ///< What readers see.
  Offset stored = 0;  ///< Room taken on targets.
  Offset files = 0;
};

class DiskUseReport {
 public:
  DiskUseReport(const FileSystem& fs, const DiskUseOptions& options, std::ostream& out)
      : fs_(fs), options_(options), out_(out), json_(text_) {}

  Result<int> run() {
    std::vector<std::string> paths = options_.paths;
    if (paths.empty()) paths.emplace_back("/");
    if (options_.json) json_.begin_array();
    for (const std::string& text : paths) {
      const std::string path = weir_path(text);
      WEIR_TRY(const Stat found, fs_.stat(path));
      WEIR_TRY(const DiskUse use, found.is_directory ? directory(path) : Result<DiskUse>(of(found)));
      if (!found.is_directory || options_.summarize) show(path, found.is_directory, use);
    }
    if (options_.json) {
      json_.end_array();
      out_ << text_ << '\n';
    }
    return kExitOk;
  }

 private:
  static DiskUse of(const Stat& stat) {
    DiskUse use{stat.size, 0, 1};
    for (const Stat::Subfile& subfile : stat.subfiles) use.stored += subfile.stored_bytes;
    return use;
  }

  Result<DiskUse> directory(const std::string& path) {
    DiskUse sum;
    WEIR_TRY(const std::vector<Entry> entries, fs_.list(path));
    for (const Entry& entry : entries) {
      if (!is_entry_name(entry.name)) continue;
      const std::string inner = join_path(path, entry.name);
      WEIR_TRY(const DiskUse use, entry.is_directory ? directory(inner) : file(inner));
      sum.size += use.size;
      sum.stored += use.stored;
      sum.files += use.files;
    }
    if (!options_.summarize) show(path, true, sum);
    return sum;
  }

  Result<DiskUse> file(const std::string& path) {
    const Result<Stat> found = fs_.stat(path);
    if (!found.is_ok() && found.status().code() == ErrorCode::kNotFound)
      return DiskUse{};  // removed since it was listed
    if (!found.is_ok()) return found.status();
    const DiskUse use = of(*found);
    if (options_.all && !options_.summarize) show(path, false, use);
    return use;
  }

  void show(const std::string& path, bool is_directory, const DiskUse& use) {
    if (options_.json) {
      json_.begin_object().field("path", std::string_view(path)).field("directory", is_directory);
      json_.field("size", use.size).field("stored_bytes", use.stored).field("files", use.files).end_object();
      return;
    }
    const auto text = [&](Offset bytes) {
      return options_.bytes ? std::to_string(bytes) : bytes_text(static_cast<double>(bytes));
    };
    if (is_first_) out_ << fmt::format("{:>14} {:>14} {:>8}  {}\n", "size", "stored", "files", "path");
    is_first_ = false;
    out_ << fmt::format("{:>14} {:>14} {:>8}  {}\n", text(use.size), text(use.stored), use.files, printable(path));
  }

  const FileSystem& fs_;
  const DiskUseOptions& options_;
  std::ostream& out_;
  std::string text_;
  JsonWriter json_;
  bool is_first_ = true;
};

Result<int> show_disk_use(const DiskUseOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  return DiskUseReport(fs, options, console.out).run();
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
  out << fmt::format("{}: {}, mode {:04o}, owner {}, group {}\n", printable(path),
                     stat.is_directory ? "directory" : "file", stat.mode, stat.uid, stat.gid);
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
  for (const Entry& entry : entries) WEIR_RETURN_IF_ERROR(remove_tree(fs, join_path(path, entry.name)));
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
  if (target.is_ok() && target->is_directory) to = join_path(to, from.substr(from.rfind('/') + 1));
  WEIR_RETURN_IF_ERROR(fs.rename(from, to));
  return kExitOk;
}

// ---- df ------------------------------------------------------------------------------------------------------------

/// Targets that share room: those of one disk, or one memory store.
struct Disk {
  std::vector<std::uint32_t> targets;
  std::string store;
  Offset capacity = 0;
  Offset free = 0;
  Offset stored = 0;  ///< By Weir.
  Offset subfiles = 0;
};

std::vector<Disk> disks_of(const std::vector<TargetUsage>& usage) {
  std::vector<Disk> disks;
  std::map<std::string, std::size_t> known;
  for (const TargetUsage& one : usage) {
    const auto [place, is_new] = known.try_emplace(one.disk, disks.size());
    const bool is_own = one.disk.empty();
    if (is_new || is_own) {
      disks.push_back({{}, one.store, one.capacity_bytes, one.capacity_bytes - one.used_bytes, 0, 0});
    }
    Disk& disk = is_own ? disks.back() : disks[place->second];
    disk.targets.push_back(one.target);
    disk.stored += one.stored_bytes;
    disk.subfiles += one.subfiles;
  }
  return disks;
}

// "0-2,5"
std::string targets_text(const std::vector<std::uint32_t>& targets) {
  std::string text;
  for (std::size_t i = 0; i < targets.size();) {
    std::size_t last = i;
    while (last + 1 < targets.size() && targets[last + 1] == targets[last] + 1) ++last;
    text += concat(text.empty() ? "" : ",", targets[i]);
    if (last > i) text += concat("-", targets[last]);
    i = last + 1;
  }
  return text;
}

void usage_json(const std::vector<TargetUsage>& usage, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_array();
  for (const Disk& disk : disks_of(usage)) {
    json.begin_object().key("targets").begin_array();
    for (const std::uint32_t target : disk.targets) json.value(static_cast<Offset>(target));
    json.end_array().key("addresses").begin_array();
    for (const std::uint32_t target : disk.targets) json.value(std::string_view(usage[target].address));
    json.end_array().field("store", std::string_view(disk.store)).field("capacity_bytes", disk.capacity);
    json.field("used_bytes", disk.stored).field("free_bytes", disk.free).field("subfiles", disk.subfiles).end_object();
  }
  json.end_array();
  out << text << '\n';
}

Result<int> show_usage(const UsageOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  WEIR_TRY(const std::vector<TargetUsage> targets, fs.usage(true));
  if (options.json) {
    usage_json(targets, console.out);
    return kExitOk;
  }
  console.out << fmt::format("{:<10} {:<28} {:>12} {:>12} {:>12} {:>10}\n", "targets", "store", "capacity", "used",
                             "free", "subfiles");
  for (const Disk& disk : disks_of(targets)) {
    console.out << fmt::format("{:<10} {:<28} {:>12} {:>12} {:>12} {:>10}\n", targets_text(disk.targets), disk.store,
                               bytes_text(static_cast<double>(disk.capacity)),
                               bytes_text(static_cast<double>(disk.stored)), bytes_text(static_cast<double>(disk.free)),
                               disk.subfiles);
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
  add_command<ListOptions>(
      app, selection, "ls", "List directories and files",
      "Names with control characters are shown as words for the shell: $'a\\nb'.\n\n"
      "Examples:\n  weir ls -l /results\n  weir ls -R\n",
      [](CLI::App& command, ListOptions& options) {
        command.add_option("PATH", options.paths, "Directories or files [/]");
        command.add_flag("-l,--long", options.is_long, "With mode, owner, size and time");
        command.add_flag("-R,--recursive", options.recursive, "Directories below too");
        add_file_system(command, options.file_system);
        add_json(command, options.json);
      },
      list);
  add_command<DiskUseOptions>(
      app, selection, "du", "Sizes of directories, and the room that they take",
      "Size is what readers see, stored the room taken: less if there are holes, more since stores round up.\n\n"
      "Examples:\n  weir du -s /results /input\n  weir du -a --json\n",
      [](CLI::App& command, DiskUseOptions& options) {
        command.add_option("PATH", options.paths, "Directories or files [/]");
        CLI::Option* all = command.add_flag("-a,--all", options.all, "Every file too");
        command.add_flag("-s,--summarize", options.summarize, "Only what was asked for, not what is below it")
            ->excludes(all);
        command.add_flag("-b,--bytes", options.bytes, "Exact bytes");
        add_file_system(command, options.file_system);
        add_json(command, options.json);
      },
      show_disk_use);
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
      app, selection, "df", "What Weir uses and what is free, once for each disk",
      "Used is what files of this file system take; free is what anybody may still take of the disk.\n\n"
      "Example:\n  weir df\n",
      [](CLI::App& command, UsageOptions& options) {
        add_file_system(command, options.file_system);
        add_json(command, options.json);
      },
      show_usage);
}

}  // namespace weir::cli::internal
