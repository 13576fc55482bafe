#pragma once

// Servers on the nodes of a Slurm allocation: `srun` starts one on each node, and its standard input and output, which
// reach all of them, are the pipes of daemons.h.  They end when standard input does, so nothing outlives the job.  The
// end of a job may kill its keeper at once, but first asks the servers to end: the first of them takes away the job's
// folder, too.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weir/launch/daemons.h>

namespace weir::launch {

/// Whether this process runs in an allocation, and `srun` is there.
[[nodiscard]] bool is_in_slurm();
/// 1 if it is not known.
[[nodiscard]] int slurm_nodes();

class SlurmServers {
 public:
  /// Beside the connection file, the key is written to a file for the servers: the folder must be one that the nodes
  /// share.
  static Result<std::unique_ptr<SlurmServers>> start(const DaemonOptions& options, const std::string& connection);

  int stop(std::chrono::milliseconds patience);  ///< \returns 1 if `srun` had to be killed.
  void keep();

 private:
  SlurmServers(Process srun, PipeEnds pipes, std::string log_file)
      : srun_(srun), pipes_(std::move(pipes)), log_file_(std::move(log_file)) {}
  Result<std::vector<net::Address>> introduce(int servers);
  Result<std::string> hear(int& index);
  [[nodiscard]] Status failure(const std::string& what) const;

  Process srun_;
  PipeEnds pipes_;        // what servers say, and where they hear
  std::string log_file_;  // where srun says what is wrong
  std::chrono::steady_clock::time_point ready_by_;
};

/// What SlurmServers::start() tells each server, as arguments of `weir serve-job`.
struct ServeJobOptions {
  std::string secret_file;
  int on_node = 1;  ///< Servers on this node.
  std::string store = "memory";
  std::uint64_t file_system = 0;
  /// If not given or 0: an equal share of half of the memory that the job has on this node.
  std::optional<Offset> capacity;
  std::optional<Offset> ahead;
  bool verifies_memory = false;
};

/// Runs one server of the job in this process, which `srun` started, until the job ends.
/// \returns its exit code
Result<int> serve_job(const ServeJobOptions& options);

}  // namespace weir::launch
