#include <weir/cli/internal/daemons.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/text.h>
#include <weir/server/server.h>

namespace weir::cli::internal {

namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(10);

Status system_error(const char* what) {
  return {ErrorCode::kIoError, concat("weir up: ", what, ": ", std::strerror(errno))};
}

/// One end of a pipe.
class Pipe {
 public:
  Pipe() = default;
  explicit Pipe(int descriptor) : descriptor_(descriptor) {}
  [[nodiscard]] int get() const { return descriptor_.get(); }

  /// A line without its end; empty at the end of all.
  [[nodiscard]] std::string read_line() const {
    std::string line;
    char c = 0;
    for (;;) {
      const ssize_t count = ::read(get(), &c, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0 || c == '\n') return line;
      line.push_back(c);
    }
  }

  void write_line(const std::string& line) const {
    const std::string text = line + "\n";
    // A peer that is gone shows when the next line is read.
    static_cast<void>(!::write(get(), text.data(), text.size()));
  }

 private:
  Descriptor descriptor_;
};

struct Ends {
  Pipe read;
  Pipe write;
};

Result<Ends> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
  return Ends{Pipe(ends[0]), Pipe(ends[1])};
}

// Standard input from nowhere, output to the log, everything else that was open closed but the two pipes.
void settle(const DaemonOptions& options, int keep_in, int keep_out) {
  ::setsid();
  ::umask(077);
  static_cast<void>(!::chdir("/"));
  const int nowhere = ::open("/dev/null", O_RDWR);
  const int log = options.log_file.empty() ? -1 : ::open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(nowhere, STDIN_FILENO);
  ::dup2(log >= 0 ? log : nowhere, STDOUT_FILENO);
  ::dup2(log >= 0 ? log : nowhere, STDERR_FILENO);
  const int low = std::min(keep_in, keep_out);
  const int high = std::max(keep_in, keep_out);
  if (low > 3) ::close_range(3, static_cast<unsigned>(low - 1), 0);
  if (high > low + 1) ::close_range(static_cast<unsigned>(low + 1), static_cast<unsigned>(high - 1), 0);
  ::close_range(static_cast<unsigned>(high + 1), ~0U, 0);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// The life of a server; in the process that it is.
int serve(const DaemonOptions& options, std::uint32_t index, const net::Key& key, const Pipe& from_parent,
          Pipe to_parent) {
  ::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int one : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, one);
  // Before any thread is made: all of them inherit it, and only sigwait() below takes these signals.
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  server::Options how;
  how.index = index;
  how.address.text = concat("tcp:", options.listen, ":0");
  how.key = key;
  how.store = options.store;
  how.capacity_bytes = options.capacity_bytes;
  auto server = server::Server::start(how);
  if (!server.is_ok()) {
    to_parent.write_line(concat("error ", server.status().message()));
    return 1;
  }
  to_parent.write_line((*server)->address().text);
  std::vector<net::Address> members;
  for (std::string line = from_parent.read_line(); !line.empty(); line = from_parent.read_line())
    members.push_back({line});
  if (members.empty()) return 1;  // the parent gave up
  (*server)->set_members(members);
  to_parent.write_line("ready");
  to_parent = Pipe();
  int signal = 0;
  ::sigwait(&signals, &signal);
  (*server)->stop();
  return 0;
}

struct Child {
  Process process;
  Pipe from;
  Pipe to;
};

Result<Child> start_one(const DaemonOptions& options, std::uint32_t index, const net::Key& key) {
  WEIR_TRY(Ends up, make_pipe());
  WEIR_TRY(Ends down, make_pipe());
  const pid_t middle = ::fork();
  if (middle < 0) return system_error("fork");
  if (middle == 0) {
    const pid_t server = ::fork();
    if (server != 0) ::_exit(server < 0 ? 1 : 0);
    settle(options, down.read.get(), up.write.get());
    Pipe out = std::move(up.write);
    out.write_line(std::to_string(::getpid()));
    const int code = serve(options, index, key, down.read, std::move(out));
    std::fflush(nullptr);
    ::_exit(code);
  }
  ::waitpid(middle, nullptr, 0);
  up.write = Pipe();
  down.read = Pipe();
  const std::string number = up.read.read_line();
  if (number.empty()) return Status(ErrorCode::kIoError, concat("weir up: cannot start server ", index));
  return Child{Process::find(std::stoll(number)), std::move(up.read), std::move(down.write)};
}

Result<net::Address> address_of(const Child& child, std::uint32_t index, const DaemonOptions& options) {
  const std::string line = child.from.read_line();
  constexpr std::string_view kError = "error ";
  if (line.rfind(kError, 0) == 0) {
    return Status(ErrorCode::kIoError, concat("weir up: server ", index, ": ", line.substr(kError.size())));
  }
  if (line.empty()) {
    return Status(ErrorCode::kIoError, concat("weir up: server ", index, " ended before it listened",
                                              options.log_file.empty() ? "" : concat("; see ", options.log_file)));
  }
  return net::Address{line};
}

Status introduce(std::vector<Child>& children, const std::vector<Daemon>& daemons) {
  for (Child& child : children) {
    for (const Daemon& daemon : daemons) child.to.write_line(daemon.address.text);
    child.to.write_line("");
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (children[i].from.read_line() == "ready") continue;
    return {ErrorCode::kIoError, concat("weir up: server ", i, " ended before it was ready")};
  }
  return Status::ok();
}

Result<std::vector<Daemon>> start_all(const DaemonOptions& options, const net::Key& key, std::vector<Child>& children) {
  std::vector<Daemon> daemons;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(options.servers); ++i) {
    WEIR_TRY(Child child, start_one(options, i, key));
    children.push_back(std::move(child));
    WEIR_TRY(net::Address address, address_of(children.back(), i, options));
    daemons.push_back({children.back().process, std::move(address)});
  }
  WEIR_RETURN_IF_ERROR(introduce(children, daemons));
  return daemons;
}

bool none_runs(const std::vector<Process>& processes) {
  return std::none_of(processes.begin(), processes.end(), [](const Process& one) { return one.is_running(); });
}

}  // namespace

Process Process::find(std::int64_t number) {
  std::ifstream file(concat("/proc/", number, "/stat"));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The second field, the name, may hold anything; those after its last ")" are numbers, the 20th of them the time.
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return {number, 0};
  std::istringstream rest(text.substr(end + 1));
  std::string field;
  for (int i = 0; i < 20 && rest; ++i) rest >> field;
  return {number, std::strtoll(field.c_str(), nullptr, 10)};
}

bool Process::is_running() const { return started != 0 && find(number).started == started; }

Result<std::vector<Daemon>> start_daemons(const DaemonOptions& options, const net::Key& key) {
  std::vector<Child> children;
  Result<std::vector<Daemon>> daemons = start_all(options, key, children);
  if (!daemons.is_ok()) {
    std::vector<Process> processes;
    for (const Child& child : children) processes.push_back(child.process);
    stop_daemons(processes, std::chrono::seconds(2));
  }
  return daemons;
}

int stop_daemons(const std::vector<Process>& processes, std::chrono::milliseconds patience) {
  for (const Process& one : processes) {
    if (one.is_running()) ::kill(static_cast<pid_t>(one.number), SIGTERM);
  }
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!none_runs(processes) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(kPollInterval);
  int killed = 0;
  for (const Process& one : processes) {
    if (!one.is_running()) continue;
    ::kill(static_cast<pid_t>(one.number), SIGKILL);
    ++killed;
  }
  return killed;
}

}  // namespace weir::cli::internal
