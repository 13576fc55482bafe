#include <weir/launch/daemons.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/environment.h>
#include <weir/base/os_error.h>
#include <weir/base/read_all.h>
#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/client/connection_file.h>
#include <weir/server/server.h>

namespace weir::launch {

namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(10);

Status system_error(const char* what) { return os_error(ErrorCode::kIoError, concat("start servers: ", what)); }

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Until a signal asks to stop, or the parent that it follows is gone.
void wait_for_end(const sigset_t& signals, const Pipe& from_parent, bool follows_parent) {
  const Descriptor arrived(::signalfd(-1, &signals, SFD_CLOEXEC));
  pollfd events[2] = {{arrived.get(), POLLIN, 0}, {follows_parent ? from_parent.get() : -1, POLLIN, 0}};
  for (;;) {
    uninterrupted([&] { return ::poll(events, 2, -1); });
    if (events[0].revents != 0) return;
    if (from_parent.read_line() != "keep") return;
    events[1].fd = -1;
  }
}

struct Child {
  Process process;
  Pipe from;
  Pipe to;
};

Result<Child> start_one(const DaemonOptions& options, std::uint32_t index, const net::Key& secret) {
  WEIR_TRY(PipeEnds up, make_pipe());
  WEIR_TRY(PipeEnds down, make_pipe());
  const pid_t middle = ::fork();
  if (middle < 0) return system_error("fork");
  if (middle == 0) {
    const pid_t server = ::fork();
    if (server != 0) ::_exit(server < 0 ? 1 : 0);
    const ProcessSession session = options.follows_parent ? ProcessSession::kCallers : ProcessSession::kOwn;
    settle_in_background(session, options.log_file, down.read.get(), up.write.get());
    Pipe out = std::move(up.write);
    out.write_line(std::to_string(::getpid()));
    const int code = serve(options, index, secret, down.read, std::move(out));
    std::fflush(nullptr);
    ::_exit(code);
  }
  uninterrupted([&] { return ::waitpid(middle, nullptr, 0); });
  up.write = Pipe();
  down.read = Pipe();
  const std::string number = up.read.read_line();
  if (number.empty()) return Status(ErrorCode::kIoError, concat("cannot start server ", index));
  return Child{Process::find(std::stoll(number)), std::move(up.read), std::move(down.write)};
}

// What server `index` says next.
Result<std::string> hear(const Child& child, std::uint32_t index, const DaemonOptions& options) {
  const std::string line = child.from.read_line();
  const std::string number = concat(index, " ");
  const std::string error = concat(number, "error ");
  if (line.rfind(error, 0) == 0) {
    return Status(ErrorCode::kIoError, concat("server ", index, ": ", line.substr(error.size())));
  }
  if (line.rfind(number, 0) == 0) return line.substr(number.size());
  return Status(ErrorCode::kIoError, concat("server ", index, " ended before it was ready",
                                            options.log_file.empty() ? "" : concat("; see ", options.log_file)));
}

// Tells it which servers there are.
void introduce(const Child& child, const std::vector<net::Address>& servers) {
  for (const net::Address& address : servers) child.to.write_line(address.text);
  child.to.write_line("");
}

std::vector<net::Address> addresses_of(const std::vector<Daemon>& daemons) {
  std::vector<net::Address> addresses;
  for (const Daemon& daemon : daemons) addresses.push_back(daemon.address);
  return addresses;
}

Status introduce_all(const std::vector<Child>& children, const std::vector<Daemon>& daemons,
                     const DaemonOptions& options) {
  for (const Child& child : children) introduce(child, addresses_of(daemons));
  for (std::uint32_t i = 0; i < children.size(); ++i) {
    WEIR_RETURN_IF_ERROR(hear(children[i], i, options).status());
  }
  return Status::ok();
}

Result<std::vector<Daemon>> start_all(const DaemonOptions& options, const net::Key& secret,
                                      std::vector<Child>& children) {
  std::vector<Daemon> daemons;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(options.servers); ++i) {
    WEIR_TRY(Child child, start_one(options, i, secret));
    children.push_back(std::move(child));
    WEIR_TRY(std::string address, hear(children.back(), i, options));
    daemons.push_back({children.back().process, {std::move(address)}, Pipe()});
  }
  WEIR_RETURN_IF_ERROR(introduce_all(children, daemons, options));
  for (std::size_t i = 0; options.follows_parent && i < daemons.size(); ++i) daemons[i].to = std::move(children[i].to);
  return daemons;
}

// Numbers and times of processes, one a line; then what load_options() reads.
Status save_processes(const DaemonOptions& options, const std::string& connection,
                      const std::vector<Process>& processes) {
  const std::string path = processes_path(connection);
  const std::string draft = path + ".new";  // a reader must not see half of it
  std::ofstream file(draft, std::ios::trunc);
  for (const Process& one : processes) file << one.number << ' ' << one.started << '\n';
  file << "store " << options.store << "\ncapacity " << options.capacity_bytes << '\n';
  if (options.ahead_bytes) file << "ahead " << *options.ahead_bytes << '\n';
  if (!options.squashes_root) file << "squash no\n";
  if (!options.encrypts) file << "encrypt no\n";
  if (options.verifies_memory) file << "verify yes\n";
  if (!options.audit_file.empty()) file << "audit " << options.audit_file << '\n';
  file.close();
  if (file && std::rename(draft.c_str(), path.c_str()) == 0) return Status::ok();
  const int error = errno;
  std::remove(draft.c_str());
  return os_error(ErrorCode::kIoError, concat("cannot write ", path), error);
}

// How servers were started, as far as that matters for starting one again.
Result<DaemonOptions> load_options(const std::string& connection) {
  DaemonOptions options;
  options.store.clear();
  options.verifies_memory = false;
  std::ifstream file(processes_path(connection));
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "store") options.store = value;
    if (name == "capacity") options.capacity_bytes = std::strtoll(value.c_str(), nullptr, 10);
    if (name == "squash") options.squashes_root = value != "no";
    if (name == "encrypt") options.encrypts = value != "no";
    if (name == "verify") options.verifies_memory = value == "yes";
    if (name == "audit") options.audit_file = value;
    if (name == "ahead") options.ahead_bytes = std::strtoll(value.c_str(), nullptr, 10);
  }
  if (!options.store.empty()) return options;
  return Status(ErrorCode::kNotFound, concat(processes_path(connection), " does not say how the servers of ",
                                             connection, " were started: `weir down` and `weir up` start all of them"));
}

// `of_clients`: the key in the connection file, which must belong to it.
Result<net::Key> load_secret(const std::string& connection, const net::Key& of_clients) {
  const std::string path = secret_path(connection);
  Result<net::Key> secret = net::Key::load(path, net::Key::Holder::kServers);
  if (secret.status().code() == ErrorCode::kNotFound) {
    return Status(ErrorCode::kNotFound,
                  concat(path, " is missing: it has the secret that the servers of ", connection,
                         " share, and without it none can join them; `weir down` and `weir up` start all of them"));
  }
  if (secret.is_ok() && secret->for_clients().bytes != of_clients.bytes) {
    return invalid_argument(concat(path, " is not the secret of the servers in ", connection));
  }
  return secret;
}

Offset half_of_memory() { return Offset{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE) / 2; }

// Of each server.
Offset capacity_of(const DaemonOptions& options) {
  return options.capacity_bytes != 0 ? options.capacity_bytes : half_of_memory() / std::max(options.servers, 1);
}

bool none_runs(const std::vector<Process>& processes) {
  return std::none_of(processes.begin(), processes.end(), [](const Process& one) { return one.is_running(); });
}

}  // namespace

bool wants_verified_memory() { return environment("WEIR_VERIFY_MEMORY") == "on"; }

std::string Pipe::read_line() const {
  std::string line;
  char c = 0;
  for (;;) {
    const ssize_t count = uninterrupted([&] { return ::read(get(), &c, 1); });
    if (count <= 0 || c == '\n') return line;
    line.push_back(c);
  }
}

void Pipe::write_line(const std::string& line) const {
  const std::string text = line + "\n";
  // A peer that is gone shows when the next line is read.
  static_cast<void>(!uninterrupted([&] { return ::write(get(), text.data(), text.size()); }));
}

Result<PipeEnds> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe");
  return PipeEnds{Pipe(ends[0]), Pipe(ends[1])};
}

void settle_in_background(ProcessSession session, const std::string& log_file, int keep_in, int keep_out) {
  if (session == ProcessSession::kOwn) {
    ::setsid();
  } else {
    ::setpgid(0, 0);
  }
  ::umask(077);
  static_cast<void>(!::chdir("/"));
  const int nowhere = ::open("/dev/null", O_RDWR);
  const int log = log_file.empty() ? -1 : ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(nowhere, STDIN_FILENO);
  ::dup2(log >= 0 ? log : nowhere, STDOUT_FILENO);
  ::dup2(log >= 0 ? log : nowhere, STDERR_FILENO);
  const int low = std::min(keep_in, keep_out);
  const int high = std::max(keep_in, keep_out);
  if (low > 3) ::close_range(3, static_cast<unsigned>(low - 1), 0);
  if (high > low + 1) ::close_range(static_cast<unsigned>(low + 1), static_cast<unsigned>(high - 1), 0);
  ::close_range(static_cast<unsigned>(high + 1), ~0U, 0);
}

int serve(const DaemonOptions& options, std::uint32_t index, const net::Key& secret, const Pipe& from_parent,
          Pipe to_parent) {
  ::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int one : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, one);
  // Before any thread is made: all of them inherit it, and only wait_for_end() takes these signals.
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  if (!options.encrypts) ::setenv("WEIR_ENCRYPTION", "never", 1);  // NOLINT(concurrency-mt-unsafe): no other thread yet

  server::Options how;
  how.index = index;
  how.address.text = options.address.empty() ? concat("tcp:", options.listen, ":0") : options.address;
  how.key = secret;
  how.store = options.store;
  how.file_system = options.file_system;
  how.capacity_bytes = options.capacity_bytes;
  how.ahead_bytes = options.ahead_bytes.value_or(server::kAheadBytes / std::max(options.servers, 1));
  how.is_eager = true;
  how.squashes_root = options.squashes_root;
  how.verifies_memory = options.verifies_memory;
  how.audit_file = options.audit_file;
  auto server = server::Server::start(how);
  if (!server.is_ok()) {
    to_parent.write_line(concat(index, " error ", server.status().message()));
    return 1;
  }
  to_parent.write_line(concat(index, " ", (*server)->address().text));
  std::vector<net::Address> members;
  for (std::string line = from_parent.read_line(); !line.empty(); line = from_parent.read_line())
    members.push_back({line});
  if (members.empty()) return 1;  // the parent gave up
  if (const Status status = (*server)->set_members(members); !status.is_ok()) {
    to_parent.write_line(concat(index, " error ", status.message()));
    return 1;
  }
  to_parent.write_line(concat(index, " ready"));
  to_parent = Pipe();
  wait_for_end(signals, from_parent, options.follows_parent);
  (*server)->stop();
  return 0;
}

Process Process::find(std::int64_t number) {
  std::ifstream file(concat("/proc/", number, "/stat"));
  const std::string text = read_all(file);
  // The second field, the name, may hold anything; the third, the state, follows its last ")".
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return {number};
  std::istringstream rest(text.substr(end + 1));
  std::string state;
  std::int64_t parent = 0;
  rest >> state >> parent;
  std::int64_t threads = 0;
  std::int64_t started = 0;
  for (int field = 5; field <= 22 && rest; ++field) {
    rest >> started;
    if (field == 20) threads = started;
  }
  // Dead, and nobody has asked for its exit code yet; while other threads end, they keep its sockets.
  if ((state == "Z" || state == "X") && threads <= 1) return {number};
  return {number, started, parent};
}

bool Process::is_running() const { return started != 0 && find(number).started == started; }

Result<std::vector<Daemon>> start_daemons(const DaemonOptions& options, const net::Key& secret) {
  std::vector<Child> children;
  DaemonOptions each = options;
  each.capacity_bytes = capacity_of(options);
  Result<std::vector<Daemon>> daemons = start_all(each, secret, children);
  if (!daemons.is_ok()) {
    std::vector<Process> processes;
    for (const Child& child : children) processes.push_back(child.process);
    stop_daemons(processes, std::chrono::seconds(2));
  }
  return daemons;
}

std::string processes_path(const std::string& connection) { return connection + ".servers"; }
std::string secret_path(const std::string& connection) { return connection + ".secret"; }

std::vector<Process> load_processes(const std::string& connection) {
  std::vector<Process> processes;
  std::ifstream file(processes_path(connection));
  for (Process one; file >> one.number >> one.started;) processes.push_back(one);
  return processes;
}

std::vector<Process> processes_of(const std::vector<Daemon>& daemons) {
  std::vector<Process> processes;
  for (const Daemon& daemon : daemons) processes.push_back(daemon.process);
  return processes;
}

Status write_files(const DaemonOptions& options, const std::string& connection, const net::Key& secret,
                   const std::vector<net::Address>& servers, const std::vector<Process>& processes) {
  WEIR_RETURN_IF_ERROR(save_processes(options, connection, processes));
  return client::ConnectionFile{secret.for_clients(), servers}.write(connection);
}

Result<std::vector<Daemon>> start_file_system(const DaemonOptions& options, const std::string& connection) {
  const net::Key secret = net::Key::random();
  WEIR_TRY(std::vector<Daemon> daemons, start_daemons(options, secret));
  DaemonOptions each = options;
  each.capacity_bytes = capacity_of(options);
  std::remove(secret_path(connection).c_str());  // of servers that were there before
  Status status = secret.save(secret_path(connection));
  if (status.is_ok()) {
    status = write_files(each, connection, secret, addresses_of(daemons), processes_of(daemons));
  }
  if (status.is_ok()) return daemons;
  stop_daemons(processes_of(daemons), std::chrono::seconds(2));
  return status;
}

Result<Daemon> restart_server(const std::string& connection, std::uint32_t index) {
  WEIR_TRY(const client::ConnectionFile file, client::ConnectionFile::read(connection));
  WEIR_TRY(DaemonOptions options, load_options(connection));
  std::vector<Process> processes = load_processes(connection);
  if (index >= file.servers.size() || processes.size() != file.servers.size()) {
    return invalid_argument(concat("server index ", index, " is out of range (", processes.size(),
                                   " servers of this machine in ", connection, ")"));
  }
  if (processes[index].is_running()) {
    return Status(ErrorCode::kExists,
                  concat("server ", index, " of ", connection, " is up already, process ", processes[index].number));
  }
  options.servers = static_cast<int>(file.servers.size());
  options.address = file.servers[index].text;
  options.log_file = connection + ".log";
  WEIR_TRY(const net::Key secret, load_secret(connection, file.key));
  WEIR_TRY(Child child, start_one(options, index, secret));
  const auto join = [&]() -> Status {
    WEIR_RETURN_IF_ERROR(hear(child, index, options).status());
    introduce(child, file.servers);
    WEIR_RETURN_IF_ERROR(hear(child, index, options).status());
    processes[index] = child.process;
    return save_processes(options, connection, processes);
  };
  const Status status = join();
  if (status.is_ok()) return Daemon{child.process, file.servers[index], Pipe()};
  stop_daemons({child.process}, std::chrono::seconds(2));
  return status;
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

}  // namespace weir::launch
