#pragma once

// The keeper of a job: a process that starts the servers of the job, owns them and the job's folder, and takes all of
// it away in the end.
//
//   weir run                              keeper
//     ──────────── fork ────────────────>   makes the folder, starts servers, writes the connection file
//     <── "folder PATH" or "error TEXT" ──
//        stages in, runs the command, stages out
//     ──────── "stop" or "keep" ─────────>  stop: ends what is left of the command, then the servers; removes the folder
//     <──────────── its exit ────────────
//
// If `weir run` ends without a word, killed, say, the pipe ends, and that means "stop": there is one way to clean up,
// and it is taken every
// time.  Servers follow the keeper in the same way.  Processes of the command are known by WEIR_JOB=<folder> in their environment,
// so that those in sessions of their own are found too (MPI launchers make such).

#include <sys/types.h>

#include <string>
#include <vector>

#include <weir/launch/daemons.h>

namespace weir::launch {

inline constexpr char kJobVariable[] = "WEIR_JOB";

struct KeeperOptions {
  DaemonOptions servers;
  std::string folder;  ///< Where the job's own folder is made.
  bool uses_slurm = false;
};

/// \threadsafety One thread.
class JobKeeper {
 public:
  /// Servers are ready when it returns.  \pre No other thread runs in this process.
  static Result<JobKeeper> start(const KeeperOptions& options);
  JobKeeper(JobKeeper&&) noexcept = default;
  JobKeeper& operator=(JobKeeper&&) noexcept = default;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::string connection() const;

  /// Waits until nothing of the job is left.  \error kIoError if something had to be killed
  Status stop();
  /// The file system stays.
  Status keep();

 private:
  JobKeeper(pid_t process, Pipe to, std::string folder);
  Status finish(const std::string& word);

  pid_t process_ = -1;
  Pipe to_;
  std::string folder_;
};

/// Where job folders go: WEIR_JOB_DIR, or else, of a job of several nodes, ~/.weir, which they share; TMPDIR, /dev/shm,
/// /tmp.
Result<std::string> job_base_folder(bool uses_slurm);

/// Of a file system that a job left: the folder that its connection file was in, if it is such a folder and empty.
void remove_job_folder(const std::string& connection);
/// With all that is in it.
void remove_all_of_job(const std::string& connection);

/// Ends all that still runs of the command of the job with this folder.
void end_command(const std::string& folder);

/// Processes of this user that have "`variable`=`value`" in the environment they were started with; not this one.
std::vector<Process> find_marked(const std::string& variable, const std::string& value);

}  // namespace weir::launch
