#include <weir/cli/internal/job_drain.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/os_error.h>
#include <weir/base/poll.h>
#include <weir/base/system_call.h>
#include <weir/cli/internal/interruption.h>
#include <weir/cli/internal/parallel_copy.h>

namespace weir::cli::internal {

namespace {

constexpr int kLookEvery = 100;  // ms

// A copy notes SIGTERM by itself, and takes away what there is of it; otherwise the process ends at its next look.
volatile std::sig_atomic_t has_to_end = 0;
void end_soon(int) { has_to_end = 1; }

class DrainLoop {
 public:
  DrainLoop(const DrainOptions& options, Console& console)
      : options_(options), console_(console), files_(options.traces, options.since), manifest_(options.manifest) {}

  // `is_over` waits for a while.
  template <typename IsOver>
  void run(IsOver is_over) {
    while (!is_over()) {
      files_.update();
      for (const std::string& path : files_.written()) {
        if (has_to_end != 0) return;
        if (files_.is_closed(path) && files_.version(path) != tried_[path]) copy(path);
      }
    }
  }

 private:
  void copy(const std::string& path) {
    const std::int64_t version = tried_[path] = files_.version(path);
    for (const StageOut& stage : options_.stages) {
      const auto target = stage.target_of(path);
      if (!target) continue;
      const Status status = copy_to(path, *target, version);
      // What the program removed or renamed is not wanted here; anything else is tried again in the end, and then
      // decides the exit code.
      if (!status.is_ok() && status.code() != ErrorCode::kNotFound) {
        console_.err << "weir run: --drain " << path << ": " << status.message() << std::endl;
      }
    }
  }

  Status copy_to(const std::string& path, const std::string& target, std::int64_t version) {
    FileSystemOptions how;
    how.file_system = options_.connection;
    WEIR_TRY(const client::FileSystem file_system, connect(how));
    WEIR_TRY(const client::Stat before, file_system.stat(path));
    WEIR_TRY(const int code, stage_out_file(options_.connection, path, target, console_));
    if (code == kExitInterrupted) has_to_end = 1;
    return code == kExitOk ? manifest_.add(path, before, version) : Status::ok();
  }

  const DrainOptions& options_;
  Console& console_;
  trace::OpenFiles files_;
  launch::Manifest manifest_;
  std::map<std::string, std::int64_t> tried_;  // version
};

// True when the other end is closed.
bool is_closed_within(const launch::Pipe& pipe, int milliseconds) {
  return wait_readable(pipe.get(), std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds)) > 0;
}

}  // namespace

Result<Drain> Drain::start(const DrainOptions& options, Console& console) {
  WEIR_TRY(launch::PipeEnds down, launch::make_pipe());
  WEIR_TRY(launch::PipeEnds up, launch::make_pipe());
  console.out.flush();
  console.err.flush();
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) {
    return os_error(ErrorCode::kIoError, "start the process of --drain: fork");
  }
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);  // Ctrl-C is for the command
    ::signal(SIGTERM, end_soon);
    down.write = launch::Pipe();
    up.read = launch::Pipe();
    Console quiet{console.in, console.out, console.err, {}};  // no progress: the terminal is the command's
    DrainLoop(options, quiet).run([&] { return is_closed_within(down.read, kLookEvery); });
    console.err.flush();
    ::_exit(0);
  }
  ::setpgid(process, process);
  return Drain(process, std::move(down.write), std::move(up.read));
}

Drain::~Drain() {
  if (process_ <= 0) return;
  to_ = launch::Pipe();
  ::kill(process_, SIGTERM);
  uninterrupted([&] { return ::waitpid(process_, nullptr, 0); });
}

}  // namespace weir::cli::internal
