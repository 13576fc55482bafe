// weir bench copy, pack, paths, redist, mpiio, view, matrix, scale, scalapack
//
// Benchmarks are programs of their own, since those against an MPI library are tied to it: this command finds the one
// asked for beside the `weir` program (or in ../libexec/weir), starts it, under the MPI's launcher where it needs one,
// and becomes it.

#include <cstring>
#include <filesystem>

#include <unistd.h>

#include <weir/base/os_error.h>
#include <weir/cli/internal/bench_command.h>
#include <weir/cli/internal/command.h>
#include <weir/launch/child.h>
#include <weir/launch/exec.h>

namespace weir::cli::internal {
namespace {

struct Bench {
  const char* name;
  const char* program;  // without the MPI's name
  bool per_mpi;
  Start launch;
  const char* summary;
  const char* footer = "Other arguments go to the benchmark; a wrong one makes it say what it takes.";
};

constexpr char kMpiioHelp[] =
    "Other arguments go to the benchmark:\n"
    "  --mb N          MiB of each rank [16]\n"
    "  --repeats N     turns of each contender [5]\n"
    "  --case TEXT     only patterns whose name holds it\n"
    "  --only CALL     only write (a new file), rewrite, read, durable (write and MPI_File_sync), or cold (read what\n"
    "                  is not in the page cache)\n"
    "  --tmpfs DIR     where rivals have their files in memory [/dev/shm]\n"
    "  --disk DIR      rivals on a disk, too; adds durable and cold to the calls, as --store disk:DIR does\n"
    "  --limit S       a contender that took longer gets no more turns [2]\n"
    "  --rest MS       after each new file, for the servers to make memory ready [200]\n"
    "  --busy N        while so many processes compute on this machine [0]\n"
    "  --quick         1 MiB of each rank, 2 turns\n"
    "  --json          a line of JSON for each row\n"
    "  --file-mb N     the largest file of --tables: 1, 8, 64, 512 MiB [64]\n"
    "  --svg FILE      plots of --tables; the number of ranks is added to the name\n\n"
    "--transport tcp measures the network: servers have a network namespace of their own, which only root can make, "
    "and\n"
    "the rival is what plain TCP connections carry, one for each rank.  Patterns are contiguous, (BLOCK,BLOCK), rows "
    "of\n"
    "4 KiB, and CYCLIC of 32 bytes.  Not encrypted unless WEIR_ENCRYPTION=always is in the environment.\n\n"
    "WEIR_DIRECT=off in the environment makes ranks reach the servers by message.\n\n"
    "Examples:\n"
    "  weir bench mpiio --mpi mpich --ranks 2,4,8 --mb 4\n"
    "  weir bench mpiio --store disk:/scratch/weir --disk /scratch --case checkpoint\n"
    "  weir bench mpiio --case transfers --busy 8\n"
    "  weir bench mpiio --transport tcp --rate 10gbit --ranks 2,4 --servers 4 --mpi mpich\n"
    "  weir bench mpiio --tables --ranks 2,4,8 --svg tables.svg\n";

constexpr Bench kBenches[] = {
    {"copy", "transfer_bench", false, Start::kAlone,
     "Gather, scatter and copy plans against memcpy and hand-written loops"},
    {"pack", "mpi_pack_bench", true, Start::kRanks, "Gather plans against MPI_Pack"},
    {"paths", "model_bench", false, Start::kAlone, "Packet strides, and local copies direct against packed"},
    {"redist", "redist_bench", true, Start::kRanks, "Redistribution of arrays against MPI_Alltoallw with darray types"},
    {"mpiio", "mpiio_bench", true, Start::kWeirRun,
     "MPI-IO through Weir against the MPI's own and MPI_Alltoallv by hand", kMpiioHelp},
    {"view", "view_bench", false, Start::kAlone, "Views against memcpy, list I/O, data sieving and two-phase I/O"},
    {"matrix", "matrix_bench", false, Start::kAlone,
     "Phases of writing a matrix: layouts of columns, squares and rows"},
    {"scale", "scale_bench", false, Start::kAlone, "Many small files, open files and views: rates and memory"},
    {"scalapack", "scalapack_bench", false, Start::kRanks,
     "The drop-in for p?gemr2d against ScaLAPACK's own (Open MPI)"},
};

std::filesystem::path this_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::filesystem::path find_program(const std::string& name) {
  std::error_code error;
  const auto here = this_program().parent_path();
  for (const auto& folder : {here, here.parent_path() / "libexec" / "weir"}) {
    if (std::filesystem::exists(folder / name, error)) return folder / name;
  }
  return {};
}

std::vector<std::string> launcher(const BenchOptions& options) {
  std::vector<std::string> words;
  if (options.mpi == "mpich") {
    words = {"mpiexec.mpich"};
  } else {
    words = {"mpirun.openmpi", "--oversubscribe", "--mca", "btl_vader_single_copy_mechanism", "none"};
    if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
  }
  words.emplace_back("-n");
  words.push_back(std::to_string(options.ranks));
  return words;
}

// Of the script that makes another host for the servers.  `facts`: --servers N --store STORE.
std::vector<std::string> network_words(const std::filesystem::path& program, const std::vector<std::string>& facts,
                                       const std::string& rate) {
  std::vector<std::string> words = {(program.parent_path() / "bench_network.sh").string()};
  if (!rate.empty()) words.insert(words.end(), {"--rate", rate});
  words.insert(words.end(), {"mpiio", this_program().string(), facts.at(1), facts.at(3), program.string()});
  return words;
}

[[nodiscard]] Status cannot_start(const std::string& word, int code) {
  return os_error(ErrorCode::kIoError, concat("cannot start ", word), code);
}

// One after the other; this process becomes the last.
Result<int> run_bench(const Bench& bench, BenchOptions options, const std::vector<int>& ranks, Console& console) {
  const std::string name = bench.per_mpi ? concat(bench.program, "_", options.mpi) : std::string(bench.program);
  const auto program = find_program(name);
  if (program.empty()) {
    return Status(
        ErrorCode::kIoError,
        concat("the program ", name, " is not beside `weir`: configure with -DWEIR_BUILD_BENCHMARKS=ON and build ",
               name, bench.launch != Start::kAlone ? " (needs the MPI's development package)" : ""));
  }
  console.out.flush();
  for (std::size_t i = 0; i + 1 < ranks.size(); ++i) {
    options.ranks = ranks[i];
    const std::vector<std::string> words = bench_command(program.string(), bench.launch, options);
    WEIR_TRY(const launch::ChildEnd end, launch::run_child({}, [&] {
               console.err << cannot_start(words.front(), launch::exec_words(words)).message() << std::endl;
               return static_cast<int>(kExitBad);
             }));
    if (end.code != kExitOk) return end.code;
  }
  options.ranks = ranks.back();
  const std::vector<std::string> words = bench_command(program.string(), bench.launch, options);
  return cannot_start(words.front(), launch::exec_words(words));
}

void declare(CLI::App& command, const Bench& bench, BenchOptions& options, std::vector<int>& ranks) {
  if (bench.per_mpi) {
    command.add_option("--mpi", options.mpi, "The MPI library")
        ->check(CLI::IsMember({"openmpi", "mpich"}))
        ->capture_default_str();
  }
  if (bench.launch != Start::kAlone) {
    command.add_option("--ranks", ranks, "Processes to start; 2,4,8: one run after the other")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }
  if (bench.launch != Start::kWeirRun) return;
  command
      .add_option("--store", options.store,
                  "Where Weir's bytes go: memory, or disk:DIR, where DIR/ranks-N stays for each number of ranks")
      ->capture_default_str();
  command.add_option("--servers", options.servers, "How many servers [1; with --tables as many as ranks]")
      ->check(CLI::PositiveNumber);
  CLI::Option* const tables = command.add_flag(
      "--tables", options.tables,
      "How files are stored instead: in stripes or as they are viewed, by size, contiguous and strided");
  CLI::Option* const transport =
      command
          .add_option(
              "--transport", options.transport,
              "auto: servers on this host; tcp: on another one, which is emulated, against plain TCP connections")
          ->check(CLI::IsMember({"auto", "tcp"}))
          ->capture_default_str()
          ->excludes(tables);
  command.add_option("--rate", options.rate, "What the link to the other host carries, as tc says it: 1gbit, 10gbit")
      ->needs(transport);
}

}  // namespace

std::vector<std::string> bench_command(const std::string& program, Start launch, const BenchOptions& options) {
  std::vector<std::string> words;
  std::vector<std::string> facts;  // the same for the benchmark, to be reported
  if (launch == Start::kWeirRun) {
    const bool is_disk = options.store != "memory";
    facts = {"--servers", std::to_string(options.servers.value_or(options.tables ? options.ranks : 1)), "--store",
             is_disk ? concat(options.store, "/ranks-", options.ranks) : options.store};
    if (options.transport == "tcp") {
      words = network_words(program, facts, options.rate);
    } else {
      words = {this_program().string(), "run"};
      words.insert(words.end(), facts.begin(), facts.end());
      words.emplace_back("--");
    }
    if (options.tables) facts.emplace_back("--tables");
  }
  if (launch != Start::kAlone) {
    for (std::string& word : launcher(options)) words.push_back(std::move(word));
  }
  words.push_back(program);
  words.insert(words.end(), facts.begin(), facts.end());
  words.insert(words.end(), options.rest.begin(), options.rest.end());
  return words;
}

void add_bench(CLI::App& app, Selection& selection) {
  CLI::App* bench = app.add_subcommand("bench", "Measure Weir against what it replaces, as ratios in one run");
  bench->require_subcommand(1);
  for (const Bench& one : kBenches) {
    CLI::App* command = bench->add_subcommand(one.name, one.summary);
    auto options = std::make_shared<BenchOptions>();
    auto ranks = std::make_shared<std::vector<int>>(1, options->ranks);
    declare(*command, one, *options, *ranks);
    command->allow_extras();
    command->footer(one.footer);
    command->callback([&selection, command, options, ranks, &one] {
      options->rest = command->remaining();
      selection.action = [options, ranks, &one](Console& console) { return run_bench(one, *options, *ranks, console); };
    });
  }
}

}  // namespace weir::cli::internal
