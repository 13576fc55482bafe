#include <weir/cli/internal/job_slurm.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <weir/cli/internal/exec.h>
#include <weir/cli/internal/job_mpi.h>

namespace weir::cli::internal {

namespace {

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  int number = otherwise;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

std::vector<std::string> srun_command(const DaemonOptions& options, const std::string& key_file) {
  std::error_code error;
  std::vector<std::string> words{"srun", concat("--ntasks=", options.servers), "--overlap", "--kill-on-bad-exit=1",
                                 "--unbuffered"};
  if (options.servers <= slurm_nodes()) {
    words.push_back(concat("--nodes=", options.servers));
    words.emplace_back("--ntasks-per-node=1");
  }
  words.push_back(std::filesystem::read_symlink("/proc/self/exe", error).string());
  words.insert(words.end(), {"serve-job", "--key", key_file, "--store", options.store, "--capacity",
                             std::to_string(options.capacity_bytes)});
  if (options.ahead_bytes) words.insert(words.end(), {"--ahead", std::to_string(*options.ahead_bytes)});
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
  exec_words(std::move(words));
  ::_exit(127);
}

struct ServeOptions {
  std::string key_file;
  std::string store = "memory";
  std::optional<Offset> capacity;
  std::optional<Offset> ahead;
};

Result<int> serve_job(const ServeOptions& options, Console&) {
  WEIR_TRY(const net::Key key, net::Key::load(options.key_file));
  DaemonOptions how;
  how.store = options.store;
  how.capacity_bytes = options.capacity.value_or(0);
  how.ahead_bytes = options.ahead;
  how.follows_parent = true;
  const char* node = std::getenv("SLURMD_NODENAME");
  if (node == nullptr) return invalid_argument("SLURMD_NODENAME is not set: srun starts this command, and sets it");
  how.listen = node;
  return serve(how, static_cast<std::uint32_t>(number_of("SLURM_PROCID", 0)), key, Pipe(::dup(STDIN_FILENO)),
               Pipe(::dup(STDOUT_FILENO)));
}

}  // namespace

bool is_in_slurm() { return std::getenv("SLURM_JOB_ID") != nullptr && !find_on_path("srun").empty(); }

int slurm_nodes() { return number_of("SLURM_JOB_NUM_NODES", 1); }

Result<std::unique_ptr<SlurmServers>> SlurmServers::start(const DaemonOptions& options, const std::string& connection) {
  const net::Key key = net::Key::random();
  const std::string key_file = connection + ".key";
  WEIR_RETURN_IF_ERROR(key.save(key_file));
  WEIR_TRY(PipeEnds down, make_pipe());
  WEIR_TRY(PipeEnds up, make_pipe());
  const pid_t srun = ::fork();
  if (srun < 0) return Status(ErrorCode::kIoError, concat("start srun: fork: ", std::strerror(errno)));
  if (srun == 0) become_srun(srun_command(options, key_file), down, up, options.log_file);
  std::unique_ptr<SlurmServers> servers(
      new SlurmServers(Process::find(srun), {std::move(up.read), std::move(down.write)}));
  up.write = Pipe();
  down.read = Pipe();
  Result<std::vector<net::Address>> addresses = servers->introduce(options.servers);
  Status status = addresses.status();
  if (status.is_ok()) status = write_files(connection, key, *addresses, {servers->srun_});
  if (status.is_ok()) return servers;
  servers->stop(std::chrono::seconds(2));
  return status;
}

Result<std::string> SlurmServers::hear(int& index) {
  const std::string line = pipes_.read.read_line();
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), index);
  const std::string text(end, line.data() + line.size());
  constexpr std::string_view kError = " error ";
  if (error != std::errc() || text.size() < 2 || text[0] != ' ') {
    return Status(ErrorCode::kIoError, concat("start servers by srun: ", line.empty() ? "srun ended" : line));
  }
  if (text.rfind(kError, 0) == 0) {
    return Status(ErrorCode::kIoError, concat("server ", index, ": ", text.substr(kError.size())));
  }
  return text.substr(1);
}

Result<std::vector<net::Address>> SlurmServers::introduce(int servers) {
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

void add_serve_job(CLI::App& app, Selection& selection) {
  CLI::App* command = app.add_subcommand("serve-job", "A server of a job; started by `weir run` through srun");
  command->group("");
  auto options = std::make_shared<ServeOptions>();
  command->add_option("--key", options->key_file)->required();
  command->add_option("--store", options->store);
  add_size(*command, "--capacity", options->capacity, "Of the store");
  add_size(*command, "--ahead", options->ahead, kAheadHelp);
  command->callback([&selection, options] {
    selection.action = [options](Console& console) { return serve_job(*options, console); };
  });
}

}  // namespace weir::cli::internal
