// weir bench copy, pack, paths, redist, mpiio, view, matrix, scale, scalapack
//
// Benchmarks are programs of their own, since those against an MPI library are tied to it: this command finds the one asked for
// beside the `weir` program (or in ../libexec/weir), starts it, under the MPI's launcher where it needs one, and becomes it.

#include <cstring>
#include <filesystem>

#include <unistd.h>

#include <weir/cli/internal/bench_command.h>
#include <weir/cli/internal/command.h>
#include <weir/cli/internal/exec.h>

namespace weir::cli::internal {
namespace {

struct Bench {
  const char* name;
  const char* program;  // without the MPI's name
  bool per_mpi;
  Start launch;
  const char* summary;
};

constexpr Bench kBenches[] = {
    {"copy", "transfer_bench", false, Start::kAlone,
     "Gather, scatter and copy plans against memcpy and hand-written loops"},
    {"pack", "mpi_pack_bench", true, Start::kRanks, "Gather plans against MPI_Pack"},
    {"paths", "model_bench", false, Start::kAlone, "Packet strides, and local copies direct against packed"},
    {"redist", "redist_bench", true, Start::kRanks, "Redistribution of arrays against MPI_Alltoallw with darray types"},
    {"mpiio", "mpiio_bench", true, Start::kWeirRun,
     "MPI-IO through Weir against the MPI's own and MPI_Alltoallv by hand"},
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

Result<int> run_bench(const Bench& bench, const BenchOptions& options, Console& console) {
  const std::string name = bench.per_mpi ? concat(bench.program, "_", options.mpi) : std::string(bench.program);
  const auto program = find_program(name);
  if (program.empty()) {
    return Status(
        ErrorCode::kIoError,
        concat("the program ", name, " is not beside `weir`: configure with -DWEIR_BUILD_BENCHMARKS=ON and build ",
               name, bench.launch != Start::kAlone ? " (needs the MPI's development package)" : ""));
  }
  const std::vector<std::string> words = bench_command(program.string(), bench.launch, options);
  console.out.flush();
  const int code = exec_words(words);
  return Status(ErrorCode::kIoError, concat("cannot start ", words.front(), ": ", std::strerror(code)));
}

}  // namespace

std::vector<std::string> bench_command(const std::string& program, Start launch, const BenchOptions& options) {
  std::vector<std::string> words;
  if (launch == Start::kWeirRun) words = {this_program().string(), "run", "--"};
  if (launch != Start::kAlone) {
    for (std::string& word : launcher(options)) words.push_back(std::move(word));
  }
  words.push_back(program);
  words.insert(words.end(), options.rest.begin(), options.rest.end());
  return words;
}

void add_bench(CLI::App& app, Selection& selection) {
  CLI::App* bench = app.add_subcommand("bench", "Measure Weir against what it replaces, as ratios in one run");
  bench->require_subcommand(1);
  for (const Bench& one : kBenches) {
    CLI::App* command = bench->add_subcommand(one.name, one.summary);
    auto options = std::make_shared<BenchOptions>();
    if (one.per_mpi) {
      command->add_option("--mpi", options->mpi, "The MPI library")
          ->check(CLI::IsMember({"openmpi", "mpich"}))
          ->capture_default_str();
    }
    if (one.launch != Start::kAlone) {
      command->add_option("--ranks", options->ranks, "Processes to start")
          ->check(CLI::PositiveNumber)
          ->capture_default_str();
    }
    command->allow_extras();
    command->footer("Other arguments go to the benchmark; a wrong one makes it say what it takes.");
    command->callback([&selection, command, options, &one] {
      options->rest = command->remaining();
      selection.action = [options, &one](Console& console) { return run_bench(one, *options, console); };
    });
  }
}

}  // namespace weir::cli::internal
