#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weir::cli::internal {

struct BenchOptions {
  std::string mpi = "openmpi";
  int ranks = 2;
  std::string store = "memory";  ///< Of Start::kWeirRun, like the following.
  std::optional<int> servers;    ///< One if not said, as many as ranks for tables.
  bool tables = false;
  std::string transport = "auto";  ///< "tcp": servers on another host, which is emulated.
  std::string rate;                ///< Of the link to it; empty: all that it carries.
  std::vector<std::string> rest;   ///< For the benchmark itself.
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
