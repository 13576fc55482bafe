#include <weir/launch/slurm.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <weir/base/environment.h>
#include <weir/base/os_error.h>
#include <weir/base/poll.h>
#include <weir/base/random_id.h>
#include <weir/launch/exec.h>
#include <weir/launch/internal/node_address.h>
#include <weir/launch/keeper.h>
#include <weir/launch/mpi.h>

namespace weir::launch {

namespace {

/// Until all servers are ready: nodes may have much to do at the start of a job.
constexpr auto kStartPatience = std::chrono::seconds(120);

int number_of(const char* variable, int otherwise) {
  const std::string text = environment(variable);
  int number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// One step beside those of the command: it takes no resources from them, and may use all of the job's on its nodes.
std::vector<std::string> srun_command(const DaemonOptions& options, const std::string& secret_file) {
  std::error_code error;
  const int nodes = std::min(options.servers, slurm_nodes());
  std::vector<std::string> words{"srun",
                                 concat("--nodes=", nodes),
                                 concat("--ntasks=", options.servers),
                                 "--distribution=cyclic",
                                 "--overlap",
                                 "--overcommit",
                                 "--mem=0",
                                 "--mpi=none",
                                 "--export=ALL",
                                 "--input=all",
                                 "--output=all",
                                 "--unbuffered",
                                 "--kill-on-bad-exit=1"};
  if (options.servers == nodes) words.emplace_back("--ntasks-per-node=1");
  words.push_back(std::filesystem::read_symlink("/proc/self/exe", error).string());
  words.insert(words.end(),
               {"serve-job", "--secret", secret_file, "--on-node",
                std::to_string((options.servers + nodes - 1) / nodes), "--store", options.store, "--file-system",
                std::to_string(random_id()), "--capacity", std::to_string(options.capacity_bytes)});
  if (options.ahead_bytes) words.insert(words.end(), {"--ahead", std::to_string(*options.ahead_bytes)});
  if (options.verifies_memory) words.emplace_back("--verify-memory");
  return words;
}

[[noreturn]] void become_srun(std::vector<std::string> words, const PipeEnds& down, const PipeEnds& up,
                              const std::string& log_file) {
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::setsid();
  ::dup2(down.read.get(), STDIN_FILENO);
  ::dup2(up.write.get(), STDOUT_FILENO);
  const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (log >= 0) ::dup2(log, STDERR_FILENO);
  // Meant for the command; here they would change what is said on the pipes, or who says it.
  for (const char* one : {"SLURM_LABELIO", "SLURM_STDINMODE", "SLURM_STDOUTMODE", "SLURM_STDERRMODE",
                          "SLURM_NTASKS_PER_NODE", "SLURM_MULTI_PROG"})
    ::unsetenv(one);
  exec_words(std::move(words));
  ::_exit(127);
}

// What Slurm allows the job on this node, in bytes, if that is less than there is.
Offset memory_of_node() {
  constexpr Offset kMegabyte = Offset{1} << 20;
  const Offset all = Offset{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  const Offset per_cpu = Offset{number_of("SLURM_MEM_PER_CPU", 0)} * number_of("SLURM_CPUS_ON_NODE", 1);
  const Offset allowed = std::max<Offset>(number_of("SLURM_MEM_PER_NODE", 0), per_cpu) * kMegabyte;
  return allowed > 0 ? std::min(all, allowed) : all;
}

}  // namespace

bool is_in_slurm() { return !environment("SLURM_JOB_ID").empty() && !find_on_path("srun").empty(); }

int slurm_nodes() { return number_of("SLURM_JOB_NUM_NODES", 1); }

Result<std::unique_ptr<SlurmServers>> SlurmServers::start(const DaemonOptions& options, const std::string& connection) {
  const net::Key secret = net::Key::random();
  const std::string secret_file = secret_path(connection);
  WEIR_RETURN_IF_ERROR(secret.save(secret_file));
  WEIR_TRY(PipeEnds down, make_pipe());
  WEIR_TRY(PipeEnds up, make_pipe());
  const pid_t srun = ::fork();
  if (srun < 0) return os_error(ErrorCode::kIoError, "start srun: fork");
  if (srun == 0) become_srun(srun_command(options, secret_file), down, up, options.log_file);
  std::unique_ptr<SlurmServers> servers(
      new SlurmServers(Process::find(srun), {std::move(up.read), std::move(down.write)}, options.log_file));
  up.write = Pipe();
  down.read = Pipe();
  Result<std::vector<net::Address>> addresses = servers->introduce(options.servers);
  Status status = addresses.status();
  if (status.is_ok()) status = write_files(options, connection, secret, *addresses, {servers->srun_});
  std::remove(secret_file.c_str());  // they have it
  if (status.is_ok()) return servers;
  servers->stop(std::chrono::seconds(2));
  return status;
}

Status SlurmServers::failure(const std::string& what) const {
  std::ifstream log(log_file_);
  std::string last;
  for (std::string line; std::getline(log, line);) {
    if (!line.empty()) last = line;
  }
  return {ErrorCode::kIoError, concat("start servers by srun: ", what, last.empty() ? "" : "; it said: ", last)};
}

Result<std::string> SlurmServers::hear(int& index) {
  if (wait_readable(pipes_.read.get(), ready_by_) == 0) {
    return failure(concat("they are not ready after ", kStartPatience.count(), " s"));
  }
  const std::string line = pipes_.read.read_line();
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), index);
  const std::string text(end, line.data() + line.size());
  constexpr std::string_view kError = " error ";
  if (error != std::errc() || text.size() < 2 || text[0] != ' ') return failure(line.empty() ? "srun ended" : line);
  if (text.rfind(kError, 0) == 0) {
    return Status(ErrorCode::kIoError, concat("server ", index, ": ", text.substr(kError.size())));
  }
  return text.substr(1);
}

Result<std::vector<net::Address>> SlurmServers::introduce(int servers) {
  ready_by_ = std::chrono::steady_clock::now() + kStartPatience;
  std::vector<net::Address> addresses(static_cast<std::size_t>(servers));
  for (int i = 0; i < servers; ++i) {
    int index = 0;
    WEIR_TRY(std::string address, hear(index));
    if (index < 0 || index >= servers) {
      return Status(ErrorCode::kIoError, concat("srun started server ", index, ", of ", servers));
    }
    addresses[static_cast<std::size_t>(index)].text = std::move(address);
  }
  for (const net::Address& address : addresses) pipes_.write.write_line(address.text);
  pipes_.write.write_line("");
  for (int i = 0; i < servers; ++i) {
    int index = 0;
    WEIR_RETURN_IF_ERROR(hear(index).status());
  }
  return addresses;
}

int SlurmServers::stop(std::chrono::milliseconds patience) {
  pipes_.write = Pipe();  // which ends the servers, and they end srun
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (srun_.is_running() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return stop_daemons({srun_}, std::chrono::seconds(2));
}

void SlurmServers::keep() { pipes_.write.write_line("keep"); }

Result<int> serve_job(const ServeJobOptions& options) {
  WEIR_TRY(const net::Key secret, net::Key::load(options.secret_file, net::Key::Holder::kServers));
  DaemonOptions how;
  how.store = options.store;
  how.file_system = options.file_system;
  how.capacity_bytes = options.capacity.value_or(0);
  if (how.capacity_bytes == 0) how.capacity_bytes = memory_of_node() / 2 / std::max(options.on_node, 1);
  how.ahead_bytes = options.ahead;
  how.verifies_memory = options.verifies_memory;
  how.follows_parent = true;
  how.squashes_root = ::geteuid() != 0;  // ranks of a job of root are root on other hosts
  const std::string node = environment("SLURMD_NODENAME");
  if (node.empty()) return invalid_argument("SLURMD_NODENAME is not set: srun starts this command, and sets it");
  how.listen = internal::address_of_node(node, environment("SLURM_LAUNCH_NODE_IPADDR"));
  const auto index = static_cast<std::uint32_t>(number_of("SLURM_PROCID", 0));
  Pipe out(::dup(STDOUT_FILENO));
  ::dup2(STDERR_FILENO, STDOUT_FILENO);  // libraries may say something there (UCX warns), and it is not for the pipe
  const int code = serve(how, index, secret, Pipe(::dup(STDIN_FILENO)), std::move(out));
  // A job that is cancelled may lose its keeper before its servers.
  if (index == 0 && code == 0) remove_all_of_job(options.secret_file);
  return code;
}

}  // namespace weir::launch
