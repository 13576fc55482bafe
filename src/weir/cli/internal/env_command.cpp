// weir env: what a shell needs so that programs started from it use a file system that is up already.

#include <filesystem>

#include <fmt/format.h>

#include <weir/base/environment.h>
#include <weir/cli/internal/run_command.h>
#include <weir/client/connection_file.h>
#include <weir/launch/mpi.h>

namespace weir::cli::internal {
namespace {

struct EnvOptions {
  std::string file_system;
  std::string mpi = "auto";
  std::string shell = "sh";
  bool unset = false;
  bool list = false;
};

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string set_line(const std::string& shell, const std::string& name, const std::string& value) {
  if (shell == "csh") return concat("setenv ", name, " ", quoted(value), ";\n");
  if (shell == "fish") return concat("set -gx ", name, " ", quoted(value), ";\n");
  return concat("export ", name, "=", quoted(value), ";\n");
}

std::string unset_line(const std::string& shell, const std::string& name) {
  if (shell == "csh") return concat("unsetenv ", name, ";\n");
  if (shell == "fish") return concat("set -e ", name, ";\n");
  return concat("unset ", name, ";\n");
}

// The file system that is meant; one that cannot be used is an error here rather than in every program.
Result<std::string> find_file_system(std::string given) {
  if (given.empty()) given = environment("WEIR_FS");
  if (given.empty()) {
    WEIR_TRY(given, client::default_connection_file());
  }
  if (given.rfind("tcp:", 0) == 0) return given;
  const std::string path = std::filesystem::absolute(given).string();
  const auto file = client::ConnectionFile::read(path);
  if (file.is_ok()) return path;
  return Status(file.status().code(), concat(file.status().message(), "; `weir up` starts a file system"));
}

Result<std::string> library_of(const EnvOptions& options) {
  return options.mpi == "auto" ? launch::find_preload_library()
                               : launch::find_mpiio_library(launch::mpi_of_name(options.mpi));
}

// Takes out whichever of our libraries is there: the shell may have been told one MPI.
Result<int> print_unset(const EnvOptions& options, Console& console) {
  std::string preload = environment("LD_PRELOAD");
  for (const auto& library : {launch::find_preload_library(), launch::find_mpiio_library(launch::Mpi::kOpenMpi),
                              launch::find_mpiio_library(launch::Mpi::kMpich)}) {
    if (library.is_ok()) preload = launch::without_library(preload, *library);
  }
  console.out << unset_line(options.shell, "WEIR_FS")
              << (preload.empty() ? unset_line(options.shell, "LD_PRELOAD")
                                  : set_line(options.shell, "LD_PRELOAD", preload));
  return kExitOk;
}

Result<int> print_list(Console& console) {
  for (const Variable& one : variables()) console.out << fmt::format("{:<24}{}\n", one.name, meaning_and_default(one));
  return kExitOk;
}

Result<int> print_env(const EnvOptions& options, Console& console) {
  if (options.list) return print_list(console);
  if (options.unset) return print_unset(options, console);
  WEIR_TRY(const std::string file_system, find_file_system(options.file_system));
  WEIR_TRY(const std::string library, library_of(options));
  console.out << set_line(options.shell, "WEIR_FS", file_system)
              << set_line(options.shell, "LD_PRELOAD", launch::with_library(environment("LD_PRELOAD"), library));
  return kExitOk;
}

}  // namespace

void add_env(CLI::App& app, Selection& selection) {
  add_command<EnvOptions>(
      app, selection, "env", "Print what a shell has to export so that MPI programs use a file system that is up",
      "Every program that the shell starts then loads the library; `weir env --unset` prints how to end that.\n\n"
      "Examples:\n"
      "  weir up --servers 4; eval \"$(weir env)\"; mpirun -n 8 ./simulation weir:/out.dat; eval \"$(weir env "
      "--unset)\"\n"
      "  weir env --shell fish --mpi mpich | source\n"
      "  weir env --list\n",
      [](CLI::App& command, EnvOptions& options) {
        command
            .add_option("--fs", options.file_system,
                        "The connection file, or addresses [$WEIR_FS, or that of `weir up`]")
            ->type_name("FS");
        command.add_option("--mpi", options.mpi, "Whose MPI-IO to replace; auto: each program's own")
            ->check(CLI::IsMember({"auto", "openmpi", "mpich"}))
            ->capture_default_str();
        command.add_option("--shell", options.shell, "For which shell: sh (bash, zsh), csh or fish")
            ->check(CLI::IsMember({"sh", "csh", "fish"}))
            ->capture_default_str();
        CLI::Option* const unset = command.add_flag("--unset", options.unset, "Print how to undo it");
        command.add_flag("--list", options.list, "List all variables that Weir reads: meaning and default")
            ->excludes(unset);
      },
      print_env);
}

}  // namespace weir::cli::internal
