// weir sync

#include <string>
#include <vector>

#include <weir/base/json_text.h>
#include <weir/cli/internal/fs_connect.h>

namespace weir::cli::internal {
namespace {

using client::Entry;
using client::File;
using client::FileSystem;
using client::Stat;

struct SyncOptions {
  FileSystemOptions file_system;
  std::string path;  ///< Empty: all there is.
  bool json = false;
};

/// Files below a directory too.  \returns how many
Result<Offset> sync_path(const FileSystem& fs, const std::string& path) {
  const Result<std::vector<Entry>> entries = fs.list(path);
  if (entries.status().code() == ErrorCode::kNotDirectory) {
    WEIR_TRY(const File file, fs.open(path));
    WEIR_RETURN_IF_ERROR(file.sync());
    return 1;
  }
  WEIR_RETURN_IF_ERROR(entries.status());
  Offset files = 0;
  for (const Entry& entry : *entries) {
    WEIR_TRY(const Offset more, sync_path(fs, (path == "/" ? path : path + "/") + entry.name));
    files += more;
  }
  return files;
}

Result<int> sync(const SyncOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  std::string text;
  JsonWriter json(text);
  json.begin_object();
  if (options.path.empty()) {
    WEIR_RETURN_IF_ERROR(fs.sync());
    json.field("path", std::string_view("/")).field("all", true);
  } else {
    const std::string path = weir_path(options.path);
    WEIR_TRY(const Offset files, sync_path(fs, path));
    json.field("path", std::string_view(path)).field("all", false).field("files", files);
  }
  json.end_object();
  if (options.json) console.out << text << '\n';
  return kExitOk;
}

}  // namespace

void add_sync_command(CLI::App& app, Selection& selection) {
  add_command<SyncOptions>(
      app, selection, "sync", "Make files durable: when it returns, bytes and names survive a loss of power",
      "Examples:\n"
      "  weir sync                 everything that anybody wrote\n"
      "  weir sync /results        the files below a directory\n"
      "  weir sync /out.dat\n"
      "What is in a memory store lasts as long as its server, whatever is synced.\n",
      [](CLI::App& command, SyncOptions& options) {
        command.add_option("PATH", options.path,
                           "A file, or a directory with all files below it; all files if not given");
        add_file_system(command, options.file_system);
        add_json(command, options.json);
      },
      sync);
}

}  // namespace weir::cli::internal
