// weir relayout, fsck

#include <fmt/format.h>

#include <weir/base/json_text.h>
#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/progress.h>
#include <weir/layout/language.h>
#include <weir/server/rebuild.h>

namespace weir::cli::internal {
namespace {

using client::CheckReport;
using client::FileSystem;
using client::Finding;

struct RelayoutOptions {
  FileSystemOptions file_system;
  std::string path;
  std::string layout;
  std::optional<Offset> buffer;
};

struct CheckOptions {
  FileSystemOptions file_system;
  bool repair = false;
  bool rebuild = false;
  std::string store;
  bool data = false;
  bool json = false;
};

Result<int> relayout(const RelayoutOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  WEIR_TRY(const layout::Partition partition, load_layout(options.layout, console));
  const std::string path = weir_path(options.path);
  ProgressBar bar(console.err, console.terminal, path);
  client::RelayoutOptions how;
  if (options.buffer) how.max_buffer_bytes = *options.buffer;
  how.progress = [&](Offset done, Offset all) { bar.show(done, all); };
  WEIR_RETURN_IF_ERROR(fs.relayout(path, partition, how));
  return kExitOk;
}

const char* kind_text(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kOrphan: return "orphan";
    case Finding::Kind::kRelayout: return "relayout";
    case Finding::Kind::kUnreadable: return "unreadable";
    case Finding::Kind::kMissing: return "missing";
    case Finding::Kind::kSidecar: return "sidecar";
    case Finding::Kind::kUnknown: return "unknown";
  }
  return "unknown";
}

void write_report_json(const CheckReport& report, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("files", report.files).field("directories", report.directories);
  json.field("subfiles", report.subfiles).field("stored_bytes", report.stored_bytes);
  json.field("stale_sidecars", report.stale_sidecars).field("refreshed_sidecars", report.refreshed_sidecars);
  json.field("pending_removals", report.pending_removals);
  json.key("findings").begin_array();
  for (const Finding& finding : report.findings) {
    json.begin_object().field("kind", kind_text(finding.kind)).field("what", std::string_view(finding.what));
    json.field("repaired", finding.is_repaired).end_object();
  }
  json.end_array().end_object();
  out << text << '\n';
}

void write_report(const CheckReport& report, const CheckOptions& options, std::ostream& out) {
  out << fmt::format("{} files, {} directories, {} subfiles, {} stored\n", report.files, report.directories,
                     report.subfiles, bytes_text(static_cast<double>(report.stored_bytes)));
  bool can_repair = false;
  for (const Finding& finding : report.findings) {
    out << fmt::format("{}: {}{}\n", kind_text(finding.kind), finding.what, finding.is_repaired ? " (repaired)" : "");
    const bool is_kind = finding.kind == Finding::Kind::kOrphan || finding.kind == Finding::Kind::kRelayout ||
                         finding.kind == Finding::Kind::kSidecar;
    can_repair = can_repair || (is_kind && !finding.is_repaired);
  }
  if (report.findings.empty()) out << (options.data ? "all bytes were read: no fault found\n" : "no fault found\n");
  if (report.stale_sidecars > 0) {
    out << fmt::format(
        "{} sidecars (kept for `weir fsck --rebuild`) are out of date; `weir fsck --repair` refreshes them\n",
        report.stale_sidecars);
  }
  if (report.refreshed_sidecars > 0) out << fmt::format("{} sidecars were refreshed\n", report.refreshed_sidecars);
  if (report.pending_removals > 0) {
    out << fmt::format("{} removed files or old layouts still have subfiles; server 0 removes them when it can\n",
                       report.pending_removals);
  }
  if (can_repair && !options.repair) out << "`weir fsck --repair` moves what belongs to no file to /lost+found\n";
}

// ---- rebuild

const char* kind_text(server::RebuildFinding::Kind kind) {
  switch (kind) {
    case server::RebuildFinding::Kind::kStore: return "store";
    case server::RebuildFinding::Kind::kSidecar: return "sidecar";
    case server::RebuildFinding::Kind::kUnreadable: return "unreadable";
    case server::RebuildFinding::Kind::kIncomplete: return "incomplete";
    case server::RebuildFinding::Kind::kCollision: return "collision";
    case server::RebuildFinding::Kind::kLost: return "lost";
  }
  return "unknown";
}

void write_rebuilt_json(const server::RebuildReport& report, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("metadata_rebuilt", report.has_made_metadata).field("files", report.files);
  json.field("directories", report.directories).field("subfiles", report.subfiles).key("findings").begin_array();
  for (const server::RebuildFinding& finding : report.findings) {
    json.begin_object()
        .field("kind", kind_text(finding.kind))
        .field("what", std::string_view(finding.what))
        .end_object();
  }
  json.end_array().end_object();
  out << text << '\n';
}

void write_rebuilt(const server::RebuildReport& report, std::ostream& out) {
  if (report.has_made_metadata) {
    out << fmt::format("rebuilt: {} files, {} directories, from {} subfiles\n", report.files, report.directories,
                       report.subfiles);
  } else {
    out << "the metadata is there, and was left as it is\n";
  }
  for (const server::RebuildFinding& finding : report.findings) {
    out << fmt::format("{}: {}\n", kind_text(finding.kind), finding.what);
  }
  out << "start the servers with `weir up`, then run `weir fsck --data`\n";
}

Result<int> rebuild(const CheckOptions& options, Console& console) {
  if (options.store.empty()) return invalid_argument("--rebuild needs --store disk:DIR; the servers must be down");
  if (options.repair || options.data) return invalid_argument("--rebuild is a run of its own: no --repair, no --data");
  server::RebuildOptions how;
  WEIR_TRY(how.store, check_store(options.store));
  Offset shown = 0;
  how.progress = [&](Offset done, Offset all) {
    if (!console.terminal.is_terminal || (done < all && done - shown < all / 100)) return;
    shown = done;
    console.err << fmt::format("\r\x1b[Kfsck --rebuild: {} of {} subfiles{}", done, all, done == all ? "\n" : "")
                << std::flush;
  };
  WEIR_TRY(const server::RebuildReport report, server::rebuild(how));
  if (options.json) {
    write_rebuilt_json(report, console.out);
  } else {
    write_rebuilt(report, console.out);
  }
  return report.findings.empty() ? kExitOk : kExitNo;
}

Result<int> check(const CheckOptions& options, Console& console) {
  if (options.rebuild) return rebuild(options, console);
  if (!options.store.empty()) return invalid_argument("--store is for --rebuild; name servers that run with --fs");
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  ProgressBar bar(console.err, console.terminal, "fsck");
  client::CheckOptions how;
  how.repair = options.repair;
  how.read_data = options.data;
  how.progress = [&](Offset done, Offset all) { bar.show(done, all); };
  WEIR_TRY(const CheckReport report, fs.check(how));
  if (options.json) {
    write_report_json(report, console.out);
  } else {
    write_report(report, options, console.out);
  }
  for (const Finding& finding : report.findings) {
    if (!finding.is_repaired) return kExitNo;
  }
  return kExitOk;
}

}  // namespace

void add_care_commands(CLI::App& app, Selection& selection) {
  add_command<RelayoutOptions>(
      app, selection, "relayout", "Store a file by another layout",
      "Servers move the bytes among themselves by plan, through bounded memory.  All or nothing: until it is done, and "
      "if it "
      "is\n"
      "interrupted, the old layout serves.\n\n"
      "Example:\n  weir relayout /out.dat 'hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])'\n",
      [](CLI::App& command, RelayoutOptions& options) {
        command.add_option("PATH", options.path, "The file")->required();
        add_layout_text(command, "LAYOUT", options.layout, "How to store it");
        add_size(command, "--buffer", options.buffer, "Most bytes of buffers, of all servers together [64M]",
                 {Offset{64} << 10, Offset{1} << 40});
        add_file_system(command, options.file_system);
      },
      relayout);
  add_command<CheckOptions>(
      app, selection, "fsck", "Compare names with what the targets hold",
      "Exit code 1 if something is wrong and was not repaired.  Nothing that might be data is ever deleted.\n\n"
      "--rebuild is for a file system whose metadata or a store is lost: its servers refuse to start.  It makes "
      "names,\n"
      "layouts and directories again from what stores keep beside the bytes; exit code 1 if something is to be looked "
      "at.\n\n"
      "Examples:\n  weir fsck --data\n  weir fsck --rebuild --store disk:/scratch/weir\n",
      [](CLI::App& command, CheckOptions& options) {
        command.add_flag("--repair", options.repair, "Move bytes that belong to no file to /lost+found, end relayouts");
        command.add_flag("--rebuild", options.rebuild,
                         "Make lost metadata again, from the stores; servers must be down");
        command.add_option("--store", options.store, "For --rebuild: where the file system is")->type_name("disk:DIR");
        command.add_flag("--data", options.data, "Read every byte, so that every checksum is checked");
        add_file_system(command, options.file_system);
        add_json(command, options.json);
      },
      check);
}

}  // namespace weir::cli::internal
