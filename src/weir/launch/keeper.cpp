#include <weir/launch/keeper.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/environment.h>
#include <weir/base/os_error.h>
#include <weir/base/read_all.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/launch/slurm.h>

namespace weir::launch {

namespace {

constexpr char kFolderPrefix[] = "weir-job-";
constexpr char kConnectionName[] = "fs.toml";
constexpr auto kCommandPatience = std::chrono::seconds(3);
/// From fork to exec of a command, when it is not marked yet.
constexpr auto kTimeToBegin = std::chrono::milliseconds(200);
constexpr auto kServerPatience = std::chrono::seconds(30);

Result<std::string> make_folder(const std::string& base) {
  std::string folder = concat(base, "/", kFolderPrefix, "XXXXXX");
  if (::mkdtemp(folder.data()) == nullptr) {
    return os_error(ErrorCode::kIoError,
                    concat("cannot make a folder for the job in ", base, " (WEIR_JOB_DIR names another place)"));
  }
  return folder;
}

/// Servers of the job, wherever they run.
class Servers {
 public:
  Status start(const KeeperOptions& options, const std::string& connection) {
    if (options.uses_slurm) {
      WEIR_TRY(slurm_, SlurmServers::start(options.servers, connection));
      return Status::ok();
    }
    WEIR_TRY(daemons_, start_file_system(options.servers, connection));
    return Status::ok();
  }

  /// \returns how many had to be killed.
  int stop() { return slurm_ ? slurm_->stop(kServerPatience) : stop_daemons(processes_of(daemons_), kServerPatience); }

  void keep() {
    if (slurm_) slurm_->keep();
    for (const Daemon& daemon : daemons_) daemon.to.write_line("keep");
  }

 private:
  std::vector<Daemon> daemons_;
  std::unique_ptr<SlurmServers> slurm_;
};

// The life of the keeper.
int keep_job(KeeperOptions options, const Pipe& from_parent, const Pipe& to_parent) {
  // Only the pipe, or SIGKILL, ends a keeper; who ends the whole group of `weir run` still wants things cleaned up.
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  // Servers become children of the keeper, and nobody has to wait for them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "weir-keeper");
  ::signal(SIGCHLD, SIG_IGN);

  const Result<std::string> folder = make_folder(options.folder);
  if (!folder.is_ok()) {
    to_parent.write_line(concat("error ", folder.status().message()));
    return 1;
  }
  const std::string connection = concat(*folder, "/", kConnectionName);
  options.servers.log_file = connection + ".log";
  options.servers.follows_parent = true;
  std::error_code ignored;
  Servers servers;
  const Status status = servers.start(options, connection);
  if (!status.is_ok()) {
    std::filesystem::remove_all(*folder, ignored);
    to_parent.write_line(concat("error ", status.message()));
    return 1;
  }
  to_parent.write_line(concat("folder ", *folder));
  const std::string word = from_parent.read_line();
  if (word == "keep") {
    servers.keep();
    return 0;
  }
  if (word.empty()) std::this_thread::sleep_for(kTimeToBegin);
  end_command(*folder);
  const int killed = servers.stop();
  std::filesystem::remove_all(*folder, ignored);
  return killed > 0 || ignored ? 1 : 0;
}

std::string environment_of(const std::filesystem::path& process) {
  std::ifstream file(process / "environ", std::ios::binary);
  return read_all(file);
}

// Empty if the file is not in such a folder.
std::filesystem::path job_folder_of(const std::string& connection) {
  const auto folder = std::filesystem::path(connection).parent_path();
  return folder.filename().string().rfind(kFolderPrefix, 0) == 0 ? folder : std::filesystem::path();
}

bool is_started_by(const Process& process, const std::vector<Process>& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Process& other) { return other.number == process.parent; });
}

bool has_entry(const std::string& environment, const std::string& entry) {
  return concat('\0', environment).find(concat('\0', entry, '\0')) != std::string::npos;
}

}  // namespace

JobKeeper::JobKeeper(pid_t process, Pipe to, std::string folder)
    : process_(process), to_(std::move(to)), folder_(std::move(folder)) {}

Result<JobKeeper> JobKeeper::start(const KeeperOptions& options) {
  WEIR_TRY(PipeEnds up, make_pipe());
  WEIR_TRY(PipeEnds down, make_pipe());
  const pid_t keeper = ::fork();
  if (keeper < 0) return os_error(ErrorCode::kIoError, "start the keeper of the job: fork");
  if (keeper == 0) {
    settle_in_background(ProcessSession::kCallers, "", down.read.get(), up.write.get());
    // The other ends are closed already; their owners must not close a number that is used again.
    ::_exit(keep_job(options, down.read, up.write));
  }
  up.write = Pipe();
  down.read = Pipe();
  const std::string line = up.read.read_line();
  constexpr std::string_view kFolder = "folder ";
  constexpr std::string_view kError = "error ";
  if (line.rfind(kFolder, 0) == 0) return JobKeeper(keeper, std::move(down.write), line.substr(kFolder.size()));
  ::waitpid(keeper, nullptr, 0);
  return Status(ErrorCode::kIoError, line.rfind(kError, 0) == 0 ? line.substr(kError.size())
                                                                : "the keeper of the job ended before it was ready");
}

std::string JobKeeper::connection() const { return concat(folder_, "/", kConnectionName); }

Status JobKeeper::finish(const std::string& word) {
  ::signal(SIGPIPE, SIG_IGN);  // a keeper that is gone shows below
  to_.write_line(word);
  to_ = Pipe();
  int status = 0;
  uninterrupted([&] { return ::waitpid(process_, &status, 0); });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Status::ok();
  if (WIFEXITED(status)) return {ErrorCode::kIoError, "some servers of the job did not stop in time and were killed"};
  // The servers went with it.
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  return {ErrorCode::kIoError, "the keeper of the job was killed, and the servers ended with it"};
}

Status JobKeeper::stop() { return finish("stop"); }
Status JobKeeper::keep() { return finish("keep"); }

Result<std::string> job_base_folder(bool uses_slurm) {
  std::error_code error;
  if (const std::string folder = environment("WEIR_JOB_DIR"); !folder.empty()) {
    return std::filesystem::absolute(folder).string();
  }
  if (uses_slurm) {
    if (environment("HOME").empty())
      return invalid_argument("HOME is not set: name a folder that all nodes share in WEIR_JOB_DIR");
    const std::string folder = environment("HOME") + "/.weir";
    std::filesystem::create_directories(folder, error);
    return folder;
  }
  for (const std::string& folder : {environment("TMPDIR"), std::string("/dev/shm"), std::string("/tmp")}) {
    if (!folder.empty() && ::access(folder.c_str(), W_OK | X_OK) == 0)
      return std::filesystem::absolute(folder).string();
  }
  return Status(ErrorCode::kIoError, "no folder for temporary files: set TMPDIR");
}

void remove_job_folder(const std::string& connection) {
  if (const auto folder = job_folder_of(connection); !folder.empty()) ::rmdir(folder.c_str());
}

void remove_all_of_job(const std::string& connection) {
  std::error_code ignored;
  if (const auto folder = job_folder_of(connection); !folder.empty()) std::filesystem::remove_all(folder, ignored);
}

// A launcher knows best how to end its ranks and what they leave, so only processes that were started by none of the
// others are asked.  What is still there then is killed.  Processes may start others meanwhile, so they are looked for
// again; one that even SIGKILL does not end, in a system call that hangs, is not waited for.
void end_command(const std::string& folder) {
  std::vector<Process> left = find_marked(kJobVariable, folder);
  for (const Process& one : left) {
    if (!is_started_by(one, left)) ::kill(static_cast<pid_t>(one.number), SIGTERM);
  }
  const auto patient_until = std::chrono::steady_clock::now() + kCommandPatience;
  const auto give_up_at = patient_until + kCommandPatience;
  for (; !left.empty() && std::chrono::steady_clock::now() < give_up_at; left = find_marked(kJobVariable, folder)) {
    if (std::chrono::steady_clock::now() >= patient_until) stop_daemons(left, std::chrono::milliseconds(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::vector<Process> find_marked(const std::string& variable, const std::string& value) {
  std::vector<Process> found;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(::getpid())) continue;
    if (!has_entry(environment_of(entry->path()), concat(variable, "=", value))) continue;
    const Process process = Process::find(std::stoll(name));
    if (process.started != 0) found.push_back(process);
  }
  return found;
}

}  // namespace weir::launch
