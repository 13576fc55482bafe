#pragma once

#include <string>
#include <vector>

namespace weir::cli::internal {

struct BenchOptions {
  std::string mpi = "openmpi";
  int ranks = 2;
  std::vector<std::string> rest;  ///< For the benchmark itself.
};

/// How a benchmark program is started.
enum class Start {
  kAlone,
  kRanks,    ///< Under the launcher of its MPI.
  kWeirRun,  ///< The same, inside `weir run`.
};

/// The words that do.
std::vector<std::string> bench_command(const std::string& program, Start launch, const BenchOptions& options);

}  // namespace weir::cli::internal
