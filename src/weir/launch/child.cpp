#include <weir/launch/child.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/os_error.h>
#include <weir/base/text.h>

namespace weir::launch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

/// Holds back the signals that are forwarded, and that of the child's end, while it lives.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&awaited_);
    for (const int one : kForwarded) sigaddset(&awaited_, one);
    sigaddset(&awaited_, SIGCHLD);
    sigset_t held = awaited_;
    sigaddset(&held, SIGTTOU);  // so that a background process may hand over the terminal
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldSignals() {
    // What came after the child's end was meant for it.
    while (wait_until(Clock::now()) > 0) {
    }
    restore();
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  void restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  /// The next signal, or 0 if none came.
  [[nodiscard]] int wait_until(std::optional<Clock::time_point> deadline) const {
    if (!deadline) return std::max(::sigwaitinfo(&awaited_, nullptr), 0);
    const auto left = std::max(*deadline - Clock::now(), Clock::duration(0));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec most{seconds.count(), static_cast<long>(std::chrono::nanoseconds(left - seconds).count())};
    return std::max(::sigtimedwait(&awaited_, nullptr, &most), 0);
  }

 private:
  sigset_t awaited_{};
  sigset_t before_{};
};

/// The terminal, if this process is in front of it.  In a pipeline the others of it are too, and want to stay there.
class OwnTerminal {
 public:
  OwnTerminal() {
    if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) return;
    terminal_ = Descriptor(::open("/dev/tty", O_RDWR | O_CLOEXEC));
    if (terminal_.is_open() && !is_ours()) terminal_.reset();
  }
  [[nodiscard]] bool is_ours() const { return ::tcgetpgrp(terminal_.get()) == ::getpgrp(); }
  void give(pid_t group) const {
    if (terminal_.is_open()) ::tcsetpgrp(terminal_.get(), group);
  }

 private:
  Descriptor terminal_;
};

class RunningChild {
 public:
  RunningChild(pid_t process, const HeldSignals& signals, const OwnTerminal& terminal, const ChildOptions& options)
      : process_(process), signals_(signals), terminal_(terminal), deadline_(options.deadline), grace_(options.grace) {}

  ChildEnd wait() {
    for (;;) {
      int status = 0;
      if (::waitpid(process_, &status, WNOHANG | WUNTRACED) == process_) {
        if (WIFEXITED(status)) return {WEXITSTATUS(status), is_late_};
        if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), is_late_};
        if (WIFSTOPPED(status)) stop_as_well(WSTOPSIG(status));
        continue;
      }
      const int signal = signals_.wait_until(deadline_);
      if (signal != 0 && signal != SIGCHLD) tell(signal);
      if (deadline_ && Clock::now() >= *deadline_) press();
    }
  }

 private:
  void tell(int signal) const { ::kill(-process_, signal); }

  // First politely, then not.
  void press() {
    tell(is_late_ ? SIGKILL : SIGTERM);
    tell(SIGCONT);
    if (is_late_) {
      deadline_.reset();
    } else {
      deadline_ = Clock::now() + grace_;
    }
    is_late_ = true;
  }

  void stop_as_well(int signal) const {
    // Who sends SIGSTOP to the child alone wants it so.
    if (signal == SIGSTOP) return;
    terminal_.give(::getpgrp());
    ::raise(SIGSTOP);
    if (terminal_.is_ours()) terminal_.give(process_);
    tell(SIGCONT);
  }

  pid_t process_;
  const HeldSignals& signals_;
  const OwnTerminal& terminal_;
  std::optional<Clock::time_point> deadline_;
  std::chrono::milliseconds grace_;
  bool is_late_ = false;
};

}  // namespace

Result<ChildEnd> run_child(const ChildOptions& options, const std::function<int()>& body) {
  const HeldSignals signals;
  const OwnTerminal terminal;
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) return os_error(ErrorCode::kIoError, "cannot start a process: fork");
  if (process == 0) {
    ::prctl(PR_SET_PDEATHSIG, options.orphan_signal);
    if (::getppid() != parent) ::_exit(1);
    ::setpgid(0, 0);
    terminal.give(::getpid());
    signals.restore();
    const int code = body();
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::setpgid(process, process);  // in both processes: afterwards it is done
  const ChildEnd end = RunningChild(process, signals, terminal, options).wait();
  terminal.give(::getpgrp());
  return end;
}

}  // namespace weir::launch
