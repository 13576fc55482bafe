// weir run
//
// A file system for one command: servers start, files are staged in, the command runs, files are staged out, everything
// goes.  A keeper (launch/keeper.h) owns what must not be left behind; this process starts the other parts one after
// the other, each in a process of its own.

#include <weir/base/environment.h>
#include <weir/base/os_error.h>
#include <weir/cli/internal/run_command.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include <weir/cli/internal/job_drain.h>
#include <weir/cli/internal/job_stage.h>
#include <weir/cli/internal/report_command.h>
#include <weir/launch/child.h>
#include <weir/launch/exec.h>
#include <weir/launch/keeper.h>
#include <weir/launch/mpi.h>
#include <weir/launch/slurm.h>
#include <weir/layout/language.h>
#include <weir/report/job_summary.h>
#include <weir/report/page.h>
#include <weir/storage/store_spec.h>

namespace weir::cli::internal {
namespace {

constexpr char kViewLayout[] = "view";  // stored as the program's views are: known to the MPI-IO library only

struct RunOptions {
  std::optional<int> servers;
  std::string store = "memory";
  std::optional<Offset> capacity;
  std::optional<Offset> ahead;
  bool verifies_memory = launch::wants_verified_memory();
  std::string layout;
  std::vector<std::string> stage_in;
  std::vector<std::string> stage_out;
  bool drain = false;
  std::string timeout;
  std::string mpi = "auto";
  std::string report;
  bool fail_on_io_error = false;
  bool quiet = false;
  bool keep = false;
  bool explain = false;
  std::vector<std::string> command;
};

/// What `weir run` was asked for, checked.
struct Job {
  launch::KeeperOptions keeper;
  std::string layout;
  std::vector<Stage> in;
  std::vector<StageOut> out;
  std::optional<double> timeout;
  std::string library;  // to preload; empty: none
  launch::MpiChoice mpi;
};

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += concat(text.empty() ? "" : " ", word);
  return text;
}

// ---- checks, before anything runs ------------------------------------------------------------------------------------

Status check_servers(const RunOptions& options, launch::KeeperOptions& keeper) {
  keeper.uses_slurm = launch::is_in_slurm();
  keeper.servers.capacity_bytes = options.capacity.value_or(0);
  keeper.servers.ahead_bytes = options.ahead;
  keeper.servers.verifies_memory = options.verifies_memory;
  WEIR_TRY(keeper.servers.store, check_store(options.store));
  const int otherwise = keeper.uses_slurm ? launch::slurm_nodes() : 1;
  WEIR_RETURN_IF_ERROR(check_server_count(options.servers.value_or(otherwise)));
  WEIR_TRY(keeper.servers.servers, choose_server_count(keeper.servers.store, options.servers, otherwise));
  WEIR_TRY(keeper.folder, launch::job_base_folder(keeper.uses_slurm));
  return Status::ok();
}

Status check_stages(const RunOptions& options, Job& job) {
  for (const std::string& text : options.stage_in) {
    WEIR_TRY(Stage stage, parse_stage_in(text));
    WEIR_RETURN_IF_ERROR(check_stage_in(stage));
    job.in.push_back(std::move(stage));
  }
  for (const std::string& text : options.stage_out) {
    WEIR_TRY(StageOut stage, parse_stage_out(text));
    WEIR_RETURN_IF_ERROR(check_stage_out(stage));
    job.out.push_back(std::move(stage));
  }
  if (options.drain && job.out.empty()) {
    return invalid_argument("--drain copies what --stage-out names, and that is nothing: add --stage-out all, say");
  }
  return Status::ok();
}

// One that is preloaded into everything and finds out, or that of one MPI if the user says which.
Result<std::string> library_to_preload(const RunOptions& options, launch::Mpi mpi) {
  return options.mpi == "auto" ? launch::find_preload_library() : launch::find_mpiio_library(mpi);
}

// An MPI that the command names must have its library; one that is only guessed need not, and is found out by each
// process.
Status check_mpi(const RunOptions& options, Job& job) {
  job.mpi = options.mpi == "auto"
                ? launch::choose_mpi(options.command)
                : launch::MpiChoice{launch::mpi_of_name(options.mpi), concat("--mpi ", options.mpi), true};
  if (options.mpi == "none") return Status::ok();
  Status status = job.mpi.is_certain ? launch::find_mpiio_library(job.mpi.mpi).status() : Status::ok();
  if (!status.is_ok()) {
    return {status.code(), concat("the MPI is ", launch::mpi_name(job.mpi.mpi), " (", job.mpi.why, "), but ",
                                  status.message(), "; --mpi none runs without it")};
  }
  Result<std::string> library = library_to_preload(options, job.mpi.mpi);
  if (library.is_ok()) {
    job.library = *library;
    return Status::ok();
  }
  if (job.mpi.is_certain) return library.status();
  job.mpi.doubt = library.status().message();
  return Status::ok();
}

Result<Job> check(const RunOptions& options, Console& console) {
  Job job;
  WEIR_RETURN_IF_ERROR(check_servers(options, job.keeper));
  WEIR_RETURN_IF_ERROR(check_stages(options, job));
  if (!options.report.empty()) WEIR_RETURN_IF_ERROR(check_report_file(options.report));
  job.layout = options.layout;
  if (!options.layout.empty() && options.layout != kViewLayout) {
    WEIR_TRY(const layout::Partition layout, load_layout(options.layout, console));
    job.layout = layout::print(layout);
  }
  if (!options.timeout.empty()) {
    WEIR_TRY(job.timeout, parse_seconds(options.timeout));
  }
  WEIR_RETURN_IF_ERROR(check_mpi(options, job));
  return job;
}

// ---- the parts of a job ----------------------------------------------------------------------------------------------

// Copies in a process of its own: this one stays without threads and connections, which the command would inherit.
Result<int> copy_in_child(const std::function<Result<int>()>& copy, Console& console) {
  launch::ChildOptions options;
  options.orphan_signal = SIGKILL;
  WEIR_TRY(const launch::ChildEnd end, launch::run_child(options, [&] {
             const Result<int> code = copy();
             if (!code.is_ok()) console.err << "weir run: " << code.status().message() << '\n';
             console.err.flush();
             return code.is_ok() ? *code : static_cast<int>(kExitBad);
           }));
  return end.code;
}

[[nodiscard]] int become(const launch::Launch& launch, Console& console) {
  for (const launch::Setting& one : launch.environment) ::setenv(one.name.c_str(), one.value.c_str(), 1);
  const int code = launch::exec_words(launch.words);
  console.err << "weir run: " << os_error(concat("cannot start ", launch.words.front()), code).message() << std::endl;
  return code == ENOENT ? kExitNoCommand : kExitCannotStart;
}

Result<int> run_program(const Job& job, const launch::Launch& launch, Console& console) {
  launch::ChildOptions options;
  if (job.timeout) {
    options.deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(*job.timeout * 1000));
  }
  WEIR_TRY(const launch::ChildEnd end, launch::run_child(options, [&] { return become(launch, console); }));
  if (!end.is_late) return end.code;
  console.err << "weir run: stopped: it took longer than " << *job.timeout << " s (--timeout)\n";
  return kExitLate;
}

// ---- the end: what lasts, what does not, and how it went

constexpr char kTraceName[] = "/trace";
constexpr char kStagedInName[] = "/staged-in";
constexpr char kDrainedName[] = "/drained";

/// Where the parts of a running job leave word for each other.
struct Records {
  std::string traces;
  std::int64_t since = 0;  // of a folder that others use, too: traces that are older are theirs
  std::string staged_in;
  std::string drained;
};

// A folder that the user wants traces in is left alone, and read.
Records records_of(const RunOptions& options, const launch::JobKeeper& keeper) {
  const std::string given = environment("WEIR_TRACE");
  const bool is_given = options.report.empty() && !given.empty();
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  return {.traces = is_given ? given : concat(keeper.folder(), kTraceName),
          .since = is_given ? now.count() : 0,
          .staged_in = concat(keeper.folder(), kStagedInName),
          .drained = concat(keeper.folder(), kDrainedName)};
}

Status make_trace_folder(const Records& records) {
  std::error_code error;
  std::filesystem::create_directory(records.traces, error);
  if (!error) return Status::ok();
  return {ErrorCode::kIoError, concat("cannot make ", records.traces, ": ", error.message())};
}

StageOutOptions what_is_outside(const Records& records) {
  const auto files = std::make_shared<trace::OpenFiles>(records.traces, records.since);
  files->update();
  const auto holds = [files](const launch::Manifest& manifest) {
    return [files, manifest](const std::string& path, const client::Stat& found) {
      return files->is_closed(path) && manifest.holds(path, found, files->version(path));
    };
  };
  return {.is_drained = holds(launch::Manifest(records.drained)),
          .is_input = holds(launch::Manifest(records.staged_in))};
}

// All of them, even if one fails: what is not copied now is lost.  After a command that failed, names that it did not
// get to make are no error.
Result<int> stage_all_out(const Job& job, const launch::JobKeeper& keeper, const Records& records, bool has_failed,
                          Console& console) {
  int worst = kExitOk;
  for (const StageOut& stage : job.out) {
    const auto copy = [&]() -> Result<int> {
      Result<int> code = stage_out(keeper.connection(), stage, what_is_outside(records), console);
      if (code.is_ok()) return code;
      code = Status(code.status().code(), concat("--stage-out ", stage.name(), ": ", code.status().message()));
      if (!has_failed || code.status().code() != ErrorCode::kNotFound) return code;
      console.err << "weir run: not staged out: " << code.status().message() << '\n';
      return kExitOk;
    };
    WEIR_TRY(const int code, copy_in_child(copy, console));
    if (worst == kExitOk) worst = code;
    if (code > 128) return code;  // a signal: enough
  }
  return worst;
}

// What goes with the servers' memory, and is nowhere else.
Status tell_discarded(const Job& job, const launch::JobKeeper& keeper, const Records& records, Console& console) {
  FileSystemOptions how;
  how.file_system = keeper.connection();
  WEIR_TRY(const client::FileSystem file_system, connect(how));
  const StageOutOptions outside = what_is_outside(records);
  std::int64_t files = 0;
  Offset bytes = 0;
  WEIR_RETURN_IF_ERROR(walk(file_system, "/", [&](const std::string& path, bool is_directory) -> Status {
    const auto is_copied = [&](const StageOut& stage) { return stage.target_of(path).has_value(); };
    if (is_directory || std::any_of(job.out.begin(), job.out.end(), is_copied)) return Status::ok();
    WEIR_TRY(const client::Stat found, file_system.stat(path));
    if (outside.is_input(path, found)) return Status::ok();
    ++files;
    bytes += found.size;
    return Status::ok();
  }));
  if (files == 0) return Status::ok();
  console.err << "weir run: " << files << (files == 1 ? " file, " : " files, ")
              << report::human_bytes(static_cast<double>(bytes)) << ", existed in memory only and "
              << (files == 1 ? "is" : "are") << " gone; --stage-out keeps " << (files == 1 ? "it" : "them") << '\n';
  return Status::ok();
}

// How the I/O went, on standard error, and in the report if there is to be one.
Result<int> tell_io(const RunOptions& options, const Records& records, const report::JobFacts& facts,
                    Console& console) {
  WEIR_TRY(const std::vector<trace::Trace> traces, trace::read_traces(records.traces, records.since));
  const trace::IoSummary summary = trace::summarize(traces);
  if (!options.quiet) console.err << "weir run: " << report::job_line(summary, facts.seconds) << '\n';
  for (const std::string& line : report::failure_lines(summary)) console.err << "weir run: " << line << '\n';
  if (!options.report.empty()) WEIR_RETURN_IF_ERROR(write_report(summary, options.report, facts));
  return options.fail_on_io_error && summary.failed_calls > 0 ? static_cast<int>(kExitBad) : static_cast<int>(kExitOk);
}

// In a process of its own too, since it reads what the command has written.  That it fails is no reason to lose what is
// to be staged out.
Result<int> conclude(const Job& job, const RunOptions& options, const launch::JobKeeper& keeper, const Records& records,
                     report::JobFacts facts, Console& console) {
  facts.command = join(options.command);
  facts.mpi = launch::mpi_name(job.mpi.mpi);
  facts.servers = job.keeper.servers.servers;
  facts.store = job.keeper.servers.store;
  WEIR_TRY(const storage::StoreSpec store, storage::StoreSpec::parse(facts.store));
  const bool is_lost = store.is_memory() && !options.keep;
  return copy_in_child(
      [&]() -> Result<int> {
        const Result<int> code = tell_io(options, records, facts, console);
        if (is_lost && !options.quiet) {
          const Status status = tell_discarded(job, keeper, records, console);
          if (!status.is_ok()) {
            console.err << "weir run: what was in memory is gone, and cannot be listed: " << status.message() << '\n';
          }
        }
        return code;
      },
      console);
}

// A signal ends the copy that is under way.
Result<int> end_drain(Drain& drain, Console& console) {
  drain.finish();
  return copy_in_child(
      [&]() -> Result<int> {
        drain.wait();
        return kExitOk;
      },
      console);
}

launch::Launch launch_of(const Job& job, const RunOptions& options, const launch::JobKeeper& keeper,
                         const Records& records) {
  std::vector<launch::Setting> settings{{"WEIR_FS", keeper.connection()}, {launch::kJobVariable, keeper.folder()}};
  if (!job.layout.empty()) settings.push_back({"WEIR_LAYOUT", job.layout});
  settings.push_back({"WEIR_TRACE", records.traces});
  // Without a report, and unless the user wants traces, accesses are only counted.
  const bool is_ours = records.traces.starts_with(keeper.folder());
  if (options.report.empty() && is_ours) settings.push_back({"WEIR_TRACE_LIMIT", "0"});
  return launch::prepare(options.command, job.library, settings);
}

void explain(const Job& job, const launch::Launch& launch, const launch::JobKeeper& keeper, Console& console) {
  console.err << "weir run: " << job.keeper.servers.servers
              << (job.keeper.servers.servers == 1 ? " server" : " servers") << (job.keeper.uses_slurm ? " by srun" : "")
              << ", store " << job.keeper.servers.store << ", connection file " << keeper.connection() << '\n'
              << "weir run: MPI " << launch::mpi_name(job.mpi.mpi) << ": " << job.mpi.why
              << (job.mpi.is_certain ? "" : "; each process finds out by itself") << '\n'
              << "weir run: " << (job.library.empty() ? "nothing is preloaded" : concat("preloads ", job.library))
              << '\n';
  for (const launch::Setting& one : launch.environment)
    console.err << "weir run: sets " << one.name << '=' << one.value << '\n';
  console.err << "weir run: runs " << join(launch.words) << std::endl;
}

Result<int> run_parts(const Job& job, const RunOptions& options, const launch::JobKeeper& keeper, Console& console) {
  const std::string layout = job.layout == kViewLayout ? "" : job.layout;
  const Records records = records_of(options, keeper);
  for (const Stage& stage : job.in) {
    const auto copy = [&] {
      launch::Manifest copied(records.staged_in);
      return stage_in(keeper.connection(), stage, layout, copied, console);
    };
    WEIR_TRY(const int code, copy_in_child(copy, console));
    if (code != kExitOk) return code;
  }
  const launch::Launch launch = launch_of(job, options, keeper, records);
  if (options.explain) explain(job, launch, keeper, console);
  WEIR_RETURN_IF_ERROR(make_trace_folder(records));
  std::optional<Drain> drain;
  if (options.drain) {
    const DrainOptions how{keeper.connection(), job.out, records.traces, records.since, records.drained};
    WEIR_TRY(Drain started, Drain::start(how, console));
    drain.emplace(std::move(started));
  }
  const auto start = std::chrono::steady_clock::now();
  WEIR_TRY(const int code, run_program(job, launch, console));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (code == kExitCannotStart || code == kExitNoCommand) return code;
  launch::end_command(keeper.folder());
  int staged = kExitOk;
  if (drain) {
    WEIR_TRY(staged, end_drain(*drain, console));
    drain.reset();
  }
  if (staged == kExitOk) {
    WEIR_TRY(staged, stage_all_out(job, keeper, records, code != kExitOk, console));
  }
  WEIR_TRY(const int told,
           conclude(job, options, keeper, records, {.exit_code = code, .seconds = took.count()}, console));
  return code != kExitOk ? code : staged != kExitOk ? staged : told;
}

Status finish(const RunOptions& options, launch::JobKeeper& keeper, Console& console) {
  if (!options.keep) return keeper.stop();
  // What stays of the folder is the way to the servers.
  std::error_code ignored;
  for (const char* const name : {kTraceName, kStagedInName, kDrainedName}) {
    std::filesystem::remove_all(keeper.folder() + name, ignored);
  }
  console.out << "The file system is still up.\n  reach it:  export WEIR_FS=" << keeper.connection()
              << "\n  stop it:   weir down --connection " << keeper.connection() << '\n';
  return keeper.keep();
}

Result<int> run_job(const RunOptions& options, Console& console) {
  if (launch::find_on_path(options.command.front()).empty()) {
    const bool is_there = ::access(options.command.front().c_str(), F_OK) == 0;
    console.err << "weir run: " << options.command.front()
                << (is_there ? ": not a program that can be run\n" : ": command not found\n");
    return is_there ? kExitCannotStart : kExitNoCommand;
  }
  WEIR_TRY(const Job job, check(options, console));
  if (!job.mpi.doubt.empty() && (options.explain || job.mpi.is_certain)) {
    console.err << "weir run: note: " << job.mpi.doubt << '\n';
  }
  console.out.flush();
  console.err.flush();
  WEIR_TRY(launch::JobKeeper keeper, launch::JobKeeper::start(job.keeper));
  const Result<int> code = run_parts(job, options, keeper, console);
  const Status finished = finish(options, keeper, console);
  if (!code.is_ok()) return code;
  if (!finished.is_ok()) console.err << "weir run: " << finished.message() << '\n';
  return *code == kExitOk && !finished.is_ok() ? static_cast<int>(kExitBad) : *code;
}

constexpr char kRunHelp[] =
    "weir run [OPTIONS] -- COMMAND [ARGUMENT...]\n\n"
    "Names that begin with weir:/ (or are below WEIR_PREFIX) are files of the job's own file system; the program opens "
    "them with MPI-IO, and is "
    "not changed for it.  Everything is gone when the command ends, however it ends, but what is staged out.\n"
    "In the end, lines on standard error tell how much was read and written, which I/O calls failed, and what is "
    "gone.\n\n"
    "Each process of the command finds out which MPI it uses, Open MPI or MPICH; --mpi forces one.  The exit code is "
    "that "
    "of the command; 124 after "
    "--timeout, 126 and 127 if it cannot be started, 2 if the job itself failed.\n\n"
    "Examples:\n"
    "  weir run --stage-out all:results -- mpirun -n 8 ./simulation weir:/out.dat\n"
    "  weir run --stage-in mesh.dat --stage-out /out.dat:results/out.dat -- mpirun -n 8 ./simulation weir:/mesh.dat "
    "weir:/out.dat\n"
    "  weir run --servers 4 --store disk:/scratch/weir --timeout 2h --keep -- ./job.sh\n";

void declare(CLI::App& command, RunOptions& options) {
  add_number(command, "--servers", options.servers, 1, kMostServers,
             "How many servers [1; in a Slurm allocation one on each node]");
  command
      .add_option("--store", options.store, "Where bytes go: memory; disk:DIR, which stays; slow:STORE?seek=T&rate=N")
      ->capture_default_str();
  add_capacity(command, options.capacity);
  add_ahead(command, options.ahead);
  add_verify_memory(command, options.verifies_memory);
  command.add_option("--layout", options.layout, "How new files are stored; view: as the program's views are")
      ->type_name("LAYOUT");
  command.add_option("--stage-in", options.stage_in, "Copy a local file or folder in before [to /SRC]")
      ->type_name("SRC[:DST]")
      ->allow_extra_args(false);
  command
      .add_option("--stage-out", options.stage_out,
                  "Copy a file, a folder, all that matches a pattern ('/out*.h5'), or all out afterwards, also after a "
                  "failure")
      ->type_name("NAME|PATTERN|all[:DST]")
      ->allow_extra_args(false);
  command.add_flag("--drain", options.drain,
                   "Copy what --stage-out names while the command runs, whenever a file is closed");
  command.add_flag("--keep", options.keep, "Leave the file system up, and say how to reach and stop it");
  command.add_option("--timeout", options.timeout, "Stop the command after this time: 90, 30m, 2h")->type_name("T");
  command.add_option("--mpi", options.mpi, "Whose MPI-IO to replace")
      ->check(CLI::IsMember({"auto", "openmpi", "mpich", "none"}))
      ->capture_default_str();
  command.add_option("--report", options.report, "Write a page about the I/O of the command")->type_name("FILE");
  command.add_flag("--fail-on-io-error", options.fail_on_io_error,
                   "Exit code 2 if an I/O call failed, whatever the command made of it");
  command.add_flag("--quiet", options.quiet, "Say nothing in the end but what failed");
  command.add_flag("--explain", options.explain, "Say what is started, and why so");
}

}  // namespace

Result<double> parse_seconds(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error == std::errc() && number > 0 && factor > 0 && number < 1e9) return number * factor;
  return invalid_argument(concat("'", text, "' is no time: write seconds, or a number with s, m or h: 90, 30m, 2h"));
}

void add_run(CLI::App& app, Selection& selection) {
  CLI::App* command = app.add_subcommand("run", "Run a command, an MPI program say, with a file system of its own");
  command->footer(kRunHelp);
  auto options = std::make_shared<RunOptions>();
  declare(*command, *options);
  command->callback([&selection, options] {
    if (selection.command.empty()) throw CLI::RequiredError("a command, after --,");
    options->command = selection.command;
    selection.action = [options](Console& console) { return run_job(*options, console); };
  });
}

}  // namespace weir::cli::internal
