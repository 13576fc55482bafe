// weir up, down, status
//
// `up` leaves two files: the connection file, all that clients need, and beside it NAME.servers, which processes there
// are, for `down`.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <weir/base/environment.h>
#include <weir/base/json_text.h>
#include <weir/base/read_all.h>
#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/progress.h>
#include <weir/client/connection_file.h>
#include <weir/config/toml.h>
#include <weir/launch/daemons.h>
#include <weir/launch/keeper.h>

namespace weir::cli::internal {
namespace {

struct UpOptions {
  launch::DaemonOptions daemons;
  std::optional<int> servers;
  std::string connection;
  std::string config;
  std::optional<Offset> capacity;
  std::optional<std::uint32_t> server;  ///< Only this one of them, again.
  bool json = false;
};

struct DownOptions {
  std::string connection;
  double patience = 30;
};

struct StatusOptions {
  FileSystemOptions file_system;
  bool json = false;
};

// As given, else as WEIR_FS says, else the default.
Result<std::string> connection_path(std::string given) {
  if (given.empty()) given = environment("WEIR_FS");
  if (given.empty()) return client::default_connection_file();
  if (given.rfind("tcp:", 0) == 0) {
    return invalid_argument(concat("WEIR_FS has addresses, not a file: ", given, "; name the file with --connection"));
  }
  return std::filesystem::absolute(given).string();
}

bool any_runs(const std::vector<launch::Process>& processes) {
  for (const launch::Process& one : processes) {
    if (one.is_running()) return true;
  }
  return false;
}

// ---- up ------------------------------------------------------------------------------------------------------------

// What the file says and the command line does not.
Status read_config(UpOptions& options, const CLI::App& command) {
  if (options.config.empty()) return Status::ok();
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::ifstream file(options.config, std::ios::binary);
  const std::string text = read_all(file, kMost);
  if (text.size() > kMost) {
    return invalid_argument(concat("config file ", options.config, ": it has more than ", kMost, " bytes"));
  }
  if (!file.eof()) return Status(ErrorCode::kIoError, concat("config file ", options.config, ": cannot read it"));
  const Result<toml::table> table = config::parse(text);
  if (!table.is_ok()) return invalid_argument(concat("config file ", options.config, ": ", table.status().message()));
  for (const auto& [key, value] : *table) {
    const std::string name(key.str());
    if (name == "servers" && value.is_integer()) {
      const auto servers = value.value_or<std::int64_t>(0);
      if (servers < 1 || servers > kMostServers) {
        return out_of_range(concat(options.config, ": servers = ", servers, ": allowed are 1 to ", kMostServers));
      }
      if (command.count("--servers") == 0) options.servers = static_cast<int>(servers);
    } else if (name == "store" && value.is_string()) {
      if (command.count("--store") == 0) options.daemons.store = value.value_or(std::string());
    } else if (name == "listen" && value.is_string()) {
      if (command.count("--listen") == 0) options.daemons.listen = value.value_or(std::string());
    } else if (name == "connection" && value.is_string()) {
      if (command.count("--connection") == 0) options.connection = value.value_or(std::string());
    } else if (name == "capacity" && value.is_string()) {
      WEIR_TRY(const Offset bytes, parse_size(value.value_or(std::string())));
      WEIR_RETURN_IF_ERROR(check_size(concat(options.config, ": capacity"), bytes, kCapacityRange));
      if (command.count("--capacity") == 0) options.capacity = bytes;
    } else if (name == "audit" && value.is_string()) {
      if (command.count("--audit") == 0) options.daemons.audit_file = value.value_or(std::string());
    } else if (name == "ahead" && value.is_string()) {
      WEIR_TRY(const Offset bytes, parse_size(value.value_or(std::string())));
      WEIR_RETURN_IF_ERROR(check_size(concat(options.config, ": ahead"), bytes, kAheadRange));
      if (command.count("--ahead") == 0) options.daemons.ahead_bytes = bytes;
    } else {
      return invalid_argument(concat("config file ", options.config, ": '", name,
                                     "' is unknown or of a wrong type; known are ",
                                     "servers (number), store, listen, connection, capacity, ahead, audit (texts)"));
    }
  }
  return Status::ok();
}

// How to start a server again.
std::string restart_hint(std::uint32_t server, const std::string& connection) {
  return concat("`weir up --server ", server, connection.empty() ? "" : concat(" --connection ", connection), "`");
}

// The servers that were started, from number `first` on.  `store`: empty if it is as it was.
void up_json(const std::string& connection, std::string_view store, std::span<const launch::Daemon> daemons,
             std::uint32_t first, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_object().field("connection", std::string_view(connection));
  if (!store.empty()) json.field("store", store);
  json.key("servers").begin_array();
  for (std::size_t i = 0; i < daemons.size(); ++i) {
    json.begin_object()
        .field("server", static_cast<Offset>(first + i))
        .field("address", std::string_view(daemons[i].address.text))
        .field("pid", static_cast<Offset>(daemons[i].process.number))
        .end_object();
  }
  json.end_array().end_object();
  out << text << '\n';
}

// Servers run in another directory than their user, and each restart must find the same file.
Result<std::string> audit_path(std::string given) {
  if (given.empty()) given = environment("WEIR_AUDIT");
  if (given.empty()) return given;
  if (given.find('\n') != std::string::npos) return invalid_argument("--audit: the name of the file has several lines");
  return std::filesystem::absolute(given).string();
}

Result<int> up_again(const UpOptions& options, const CLI::App& command, Console& console) {
  for (const char* other : {"--servers", "--store", "--capacity", "--ahead", "--listen", "--no-root-squash",
                            "--no-encryption", "--verify-memory", "--audit"}) {
    if (command.count(other) > 0) {
      return invalid_argument(
          concat("--server starts a server as it was started before: ", other, " cannot be changed"));
    }
  }
  WEIR_TRY(const std::string path, connection_path(options.connection));
  WEIR_TRY(const launch::Daemon daemon, launch::restart_server(path, *options.server));
  if (options.json) {
    up_json(path, "", {&daemon, 1}, *options.server, console.out);
  } else {
    console.out << fmt::format("server {} up again at {}\n", *options.server, daemon.address.text);
  }
  return kExitOk;
}

Result<int> up(UpOptions options, const CLI::App& command, Console& console) {
  WEIR_RETURN_IF_ERROR(read_config(options, command));
  if (options.server) return up_again(options, command, console);
  WEIR_TRY(options.daemons.store, check_store(options.daemons.store));
  WEIR_TRY(options.daemons.servers, choose_server_count(options.daemons.store, options.servers, 1));
  WEIR_TRY(options.daemons.audit_file, audit_path(options.daemons.audit_file));
  WEIR_TRY(const std::string path, connection_path(options.connection));
  if (const std::vector<launch::Process> processes = launch::load_processes(path); any_runs(processes)) {
    const auto down =
        std::find_if(processes.begin(), processes.end(), [](const auto& one) { return !one.is_running(); });
    const auto index = static_cast<std::uint32_t>(down - processes.begin());
    return Status(
        ErrorCode::kExists,
        concat("a file system is up already: ", path,
               down == processes.end() ? "" : concat("; ", restart_hint(index, path), " starts what is down of it"),
               "; stop it with `weir down`, or name another file with --connection"));
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return Status(ErrorCode::kIoError, concat("cannot make the directory of ", path, ": ", error.message()));
  options.daemons.capacity_bytes = options.capacity.value_or(0);
  options.daemons.log_file = path + ".log";

  WEIR_TRY(const std::vector<launch::Daemon> daemons, launch::start_file_system(options.daemons, path));
  if (options.json) {
    up_json(path, options.daemons.store, daemons, 0, console.out);
  } else {
    console.out << fmt::format("{} server{} up, store {}\nexport WEIR_FS={}\n", daemons.size(),
                               daemons.size() == 1 ? "" : "s", options.daemons.store, path);
    if (!options.daemons.encrypts) console.out << "export WEIR_ENCRYPTION=never\n";
  }
  return kExitOk;
}

// ---- down ----------------------------------------------------------------------------------------------------------

Result<int> down(const DownOptions& options, Console& console) {
  WEIR_TRY(const std::string path, connection_path(options.connection));
  const std::vector<launch::Process> processes = launch::load_processes(path);
  if (processes.empty()) {
    return Status(ErrorCode::kNotFound,
                  concat("no file system was started with ", path, ": name its connection file with --connection"));
  }
  const bool was_running = any_runs(processes);
  const int killed =
      launch::stop_daemons(processes, std::chrono::milliseconds(static_cast<std::int64_t>(options.patience * 1000)));
  for (const std::string& file : {path, launch::processes_path(path), launch::secret_path(path), path + ".log"})
    std::remove(file.c_str());
  launch::remove_job_folder(path);
  if (killed > 0) {
    console.err << fmt::format("weir down: {} of {} servers did not stop in {} s and were killed\n", killed,
                               processes.size(), options.patience);
    return kExitNo;
  }
  console.out << (was_running ? "down\n" : "down; its servers were not running any more\n");
  return kExitOk;
}

// ---- status --------------------------------------------------------------------------------------------------------

// What it means that a server is down.
std::string meaning_of(const client::ServerStatus& one) {
  if (one.server == 0) {
    return "names are not reachable: files cannot be opened, made, listed or removed; open files can be used as far as "
           "they are on "
           "other servers";
  }
  if (!one.unreachable_files) return "files that have bytes on it cannot be read or written there";
  if (*one.unreachable_files == 0) return "no file has bytes on it";
  std::string text = concat(*one.unreachable_files, *one.unreachable_files == 1 ? " file has" : " files have",
                            " bytes on it that cannot be read or written:");
  for (const std::string& path : one.unreachable_paths) text += concat(" ", path);
  return std::cmp_greater(*one.unreachable_files, one.unreachable_paths.size()) ? text + " ..." : text;
}

std::string_view identifies_text(const client::ServerStatus& one) {
  switch (one.identifies) {
    case client::ServerStatus::Identifies::kByKernel: return "kernel";
    case client::ServerStatus::Identifies::kByKey: return "key";
    case client::ServerStatus::Identifies::kByMunge: return "munge";
  }
  return "kernel";
}

std::string_view encrypts_text(const client::ServerStatus& one) {
  switch (one.encrypts) {
    case client::ServerStatus::Encrypts::kBeyondLoopback: return "auto";
    case client::ServerStatus::Encrypts::kAlways: return "always";
    case client::ServerStatus::Encrypts::kOnRequest: return "never";
  }
  return "auto";
}

// Who is let in, and as whom.
std::string admission_of(const client::ServerStatus& one) {
  if (one.identifies == client::ServerStatus::Identifies::kByKernel)
    return "no network port; the kernel identifies callers";
  const bool by_munge = one.identifies == client::ServerStatus::Identifies::kByMunge;
  const std::string_view root = one.squashes_root ? " (root is nobody)" : " (root is root)";
  const std::string_view encryption =
      one.encrypts == client::ServerStatus::Encrypts::kAlways      ? "all connections encrypted"
      : one.encrypts == client::ServerStatus::Encrypts::kOnRequest ? "encryption NOT required"
                                                                   : "connections to other hosts encrypted";
  return concat(
      "the kernel identifies callers on its host, ",
      by_munge ? concat("MUNGE those on other hosts", root) : "those on other hosts act as its owner by the key", "; ",
      encryption);
}

// What a server allows each client, and whether any wanted more.
std::string limits_of(const client::ServerStatus& one) {
  const client::ServerStatus::Limits& most = one.limits;
  return concat(most.connections, " connections (", most.user_connections, " of another user); each ", most.requests,
                " requests, ", bytes_text(static_cast<double>(most.memory_bytes)), ", ", most.views, " views, ",
                most.locks, " locks, ", most.stall_ms / 1000, " s without progress");
}

bool met_limits(const client::ServerStatus& one) {
  return one.refused_connections + one.refused_requests + one.dropped_connections > 0;
}

void status_json(const std::vector<client::ServerStatus>& servers, std::ostream& out) {
  std::string text;
  JsonWriter json(text);
  json.begin_array();
  for (const client::ServerStatus& one : servers) {
    json.begin_object()
        .field("server", static_cast<Offset>(one.server))
        .field("address", std::string_view(one.address));
    json.field("alive", one.error.is_ok());
    if (!one.error.is_ok()) {
      json.field("error", std::string_view(one.error.message())).field("meaning", std::string_view(meaning_of(one)));
      if (one.unreachable_files) json.field("unreachable_files", *one.unreachable_files);
    }
    json.field("requests", one.requests).field("bytes_in", one.bytes_in).field("bytes_out", one.bytes_out);
    json.field("views", one.views).field("clients", one.clients);
    if (one.error.is_ok()) {
      json.field("remote_identity", identifies_text(one)).field("root_squash", one.squashes_root);
      json.field("encryption", encrypts_text(one));
      json.field("verify_memory", one.verifies_memory).field("damaged_blocks", one.damaged_blocks);
      json.field("refused_connections", one.refused_connections).field("refused_requests", one.refused_requests);
      json.field("dropped_connections", one.dropped_connections);
      json.field("limit_connections", one.limits.connections);
      json.field("limit_user_connections", one.limits.user_connections).field("limit_requests", one.limits.requests);
      json.field("limit_memory", one.limits.memory_bytes).field("limit_views", one.limits.views);
      json.field("limit_locks", one.limits.locks).field("limit_stall_ms", one.limits.stall_ms);
    }
    json.end_object();
  }
  json.end_array();
  out << text << '\n';
}

Result<int> status(const StatusOptions& options, Console& console) {
  WEIR_TRY(const client::FileSystem fs, connect(options.file_system, true));
  const std::vector<client::ServerStatus> servers = fs.server_status();
  bool all_alive = true;
  for (const client::ServerStatus& one : servers) all_alive = all_alive && one.error.is_ok();
  if (options.json) {
    status_json(servers, console.out);
    return all_alive ? kExitOk : kExitNo;
  }
  console.out << fmt::format("{:>6} {:<24} {:<8} {:>10} {:>12} {:>12} {:>8} {:>8}\n", "server", "address", "state",
                             "requests", "received", "sent", "views", "clients");
  for (const client::ServerStatus& one : servers) {
    if (!one.error.is_ok()) {
      console.out << fmt::format("{:>6} {:<24} {:<8} {}\n", one.server, one.address, "down", one.error.message());
      continue;
    }
    console.out << fmt::format("{:>6} {:<24} {:<8} {:>10} {:>12} {:>12} {:>8} {:>8}\n", one.server, one.address, "up",
                               one.requests, bytes_text(static_cast<double>(one.bytes_in)),
                               bytes_text(static_cast<double>(one.bytes_out)), one.views, one.clients);
  }
  std::map<std::string, std::vector<std::uint32_t>> admissions;
  for (const client::ServerStatus& one : servers) {
    if (one.error.is_ok()) admissions[admission_of(one)].push_back(one.server);
  }
  for (const auto& [text, which] : admissions) {
    console.out << (admissions.size() == 1 ? "callers: "
                                           : fmt::format("callers of server {}: ", fmt::join(which, ", ")))
                << text << '\n';
  }
  std::map<std::string, std::vector<std::uint32_t>> limits;
  for (const client::ServerStatus& one : servers) {
    if (one.error.is_ok()) limits[limits_of(one)].push_back(one.server);
  }
  for (const auto& [text, which] : limits) {
    console.out << (limits.size() == 1 ? "limits: " : fmt::format("limits of server {}: ", fmt::join(which, ", ")))
                << text << '\n';
  }
  for (const client::ServerStatus& one : servers) {
    if (!one.error.is_ok() || !met_limits(one)) continue;
    console.out << fmt::format(
        "server {} refused {} connections and {} requests, and dropped {} clients that did not move\n", one.server,
        one.refused_connections, one.refused_requests, one.dropped_connections);
  }
  for (const client::ServerStatus& one : servers) {
    if (one.damaged_blocks == 0) continue;
    console.out << fmt::format(
        "server {}: {} of mapped memory changed without a write to a file (--verify-memory); its log says where\n",
        one.server,
        one.damaged_blocks == 1 ? "a block of 64 KiB" : fmt::format("{} blocks of 64 KiB", one.damaged_blocks));
  }
  for (const client::ServerStatus& one : servers) {
    if (one.error.is_ok()) continue;
    console.out << fmt::format("server {} is down: {}; {} starts it again\n", one.server, meaning_of(one),
                               restart_hint(one.server, ""));
  }
  return all_alive ? kExitOk : kExitNo;
}

void add_connection(CLI::App& command, std::string& connection) {
  command
      .add_option("--connection", connection,
                  "The connection file [$WEIR_FS, $XDG_RUNTIME_DIR/weir/fs.toml or ~/.weir/fs.toml]")
      ->type_name("FILE");
}

}  // namespace

void add_daemon_commands(CLI::App& app, Selection& selection) {
  CLI::App* start = app.add_subcommand("up", "Start a file system: servers in the background, as this user");
  start->footer(
      "The servers run until `weir down`.  Clients find them by the connection file, which has their addresses and the "
      "key.\n\n"
      "Examples:\n"
      "  weir up --servers 4\n"
      "  weir up --servers 2 --store disk:/scratch/weir\n"
      "  weir up --servers 4 --json      the connection file, and address and process of each server, as JSON\n"
      "  weir up --server 1              start server 1 of a file system again, where it was; clients reconnect\n"
      "  weir up --config weir.toml      servers = 4, store = \"memory\", capacity = \"2G\", listen = \"10.0.0.1\"\n");
  auto options = std::make_shared<UpOptions>();
  add_number(*start, "--servers", options->servers, 1, kMostServers,
             "How many [as many as made the store; 1 for a new one]");
  start->add_option("--store", options->daemons.store, "Where bytes go: memory, disk:DIR, or slow:STORE?seek=T&rate=N")
      ->capture_default_str();
  add_capacity(*start, options->capacity);
  add_ahead(*start, options->daemons.ahead_bytes);
  add_verify_memory(*start, options->daemons.verifies_memory);
  start->add_option("--listen", options->daemons.listen, "Address to listen on")->capture_default_str();
  start->add_flag_callback(
      "--no-root-squash", [options] { options->daemons.squashes_root = false; },
      "Let root of other hosts, as MUNGE says, be root here, too; otherwise it acts as nobody");
  start->add_flag_callback(
      "--no-encryption", [options] { options->daemons.encrypts = false; },
      "Do not insist on encryption between hosts; clients need WEIR_ENCRYPTION=never, too");
  start
      ->add_option("--audit", options->daemons.audit_file,
                   "Append sign-ons, refusals and changes of permissions to this file, as JSON lines [$WEIR_AUDIT]")
      ->type_name("FILE");
  start->add_option("--server", options->server, "Start only this server again, one that has ended, as it was")
      ->type_name("I");
  start->add_option("--config", options->config, "Read what is not given here from a TOML file")->type_name("FILE");
  add_connection(*start, options->connection);
  add_json(*start, options->json);
  start->callback([&selection, options, start] {
    selection.action = [options, start](Console& console) { return up(*options, *start, console); };
  });

  add_command<DownOptions>(
      app, selection, "down", "Stop the servers that `weir up` started", "Example:\n  weir down\n",
      [](CLI::App& command, DownOptions& how) {
        add_connection(command, how.connection);
        add_decimal(command, "--patience", how.patience, 0, 86400, "Seconds to wait before servers are killed [30]");
      },
      down);
  add_command<StatusOptions>(
      app, selection, "status", "Which servers are alive, and what they have done", "Example:\n  weir status --json\n",
      [](CLI::App& command, StatusOptions& how) {
        add_file_system(command, how.file_system);
        add_json(command, how.json);
      },
      status);
}

}  // namespace weir::cli::internal
