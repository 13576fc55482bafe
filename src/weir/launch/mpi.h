#pragma once

// Which MPI a command uses, as far as that can be known before it runs, and how its ranks get our library loaded before
// it.
//
// The library is libweir_preload.so, which finds out in each process which MPI it has; what is found here is only said,
// and checked: that the library for it is there.  --mpi preloads the library of one MPI instead.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weir/base/result.h>

namespace weir::launch {

enum class Mpi { kNone, kOpenMpi, kMpich };

[[nodiscard]] std::string_view mpi_name(Mpi mpi);  ///< "openmpi", "mpich"
[[nodiscard]] Mpi mpi_of_name(std::string_view name);

struct MpiChoice {
  Mpi mpi = Mpi::kNone;
  std::string why;  ///< For people: "./a.out needs libmpi.so.40"
  bool is_certain =
      false;            ///< The command itself says so; otherwise the MPI is only the one that `mpirun` starts here.
  std::string doubt{};  ///< What does not fit together, if anything.
};

/// Looks at the programs that the command names, then at its launcher, then at the `mpirun` on PATH.
MpiChoice choose_mpi(const std::vector<std::string>& command);

/// The file that a shell would start for this word; empty if there is none.
std::string find_on_path(const std::string& word);

/// libweir_mpiio_<mpi>.so, libweir_preload.so: in WEIR_LIBRARY_DIR; or, seen from the folder of this program, where the build and `cmake --install` put it.
/// \error kNotFound names the folders; kInvalidArgument if the dynamic linker could not read the path
Result<std::string> find_mpiio_library(Mpi mpi);
Result<std::string> find_preload_library();

/// LD_PRELOAD with `library` at its end, once, and without others of ours.
std::string with_library(std::string_view preload, const std::string& library);
/// LD_PRELOAD without it.
std::string without_library(std::string_view preload, const std::string& library);

struct Setting {
  std::string name;
  std::string value;
};

/// What is really started.
struct Launch {
  std::vector<std::string> words;
  std::vector<Setting> environment;  ///< On top of what there is.
};

/// Lets the ranks of `command` have `settings`, and `library` preloaded (empty: nothing).  A launcher that comes first
/// is told to hand these on, and is itself spared the library; in front of anything else it is simply in the
/// environment.
Launch prepare(const std::vector<std::string>& command, const std::string& library,
               const std::vector<Setting>& settings);

}  // namespace weir::launch
