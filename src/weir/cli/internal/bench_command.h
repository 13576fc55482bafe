#pragma once

#include <string>
#include <vector>

namespace weir::cli::internal {

struct BenchOptions {
  std::string mpi = "openmpi";
  int ranks = 2;
  std::vector<std::string> rest;  ///< For the benchmark itself.
};

/// The words that start a benchmark program, under the launcher of its MPI if it needs one.
std::vector<std::string> bench_command(const std::string& program, bool needs_launcher, const BenchOptions& options);

}  // namespace weir::cli::internal
