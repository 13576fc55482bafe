#include "fs_team.h"

// Who lives how long: the parent forks everybody and only waits.  Servers serve until the parent closes a pipe, after
// the last worker has ended.  A process that fails ends the parent, and all others die with it.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/base/system_call.h>
#include <weir/base/text.h>
#include <weir/client/connection_file.h>
#include <weir/server/server.h>

namespace weir::bench {

namespace {

constexpr int kMostMembers = 64;
constexpr int kGroups = 2;  // all workers, and the first two

}  // namespace

struct TeamShared {
  pthread_barrier_t everybody;  // servers and workers
  pthread_barrier_t groups[kGroups];
  double starts[kMostMembers];
  double ends[kMostMembers];
  double values[kMostMembers];
  char addresses[kMostMembers][128];
  int servers;  // of each store
  pid_t server_processes[kMostMembers];
  char folder[256];
  std::byte* memory;
};

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "benchmark: %s\n", what.c_str());
  std::fflush(stderr);
  ::_exit(2);
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<double> times_of(int calls, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    const double start = now_seconds();
    work();
    times.push_back(now_seconds() - start);
  }
  return times;
}

namespace {

std::byte* map_memory(std::size_t size, int flags) {
  void* memory = ::mmap(nullptr, std::max<std::size_t>(size, 1), PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) give_up(concat("no memory for ", size, " bytes"));
  return static_cast<std::byte*>(memory);
}

}  // namespace

Buffer::Buffer(Offset size)
    : size_(static_cast<std::size_t>(size)), data_(map_memory(static_cast<std::size_t>(size), MAP_PRIVATE)) {
  std::memset(data_, 1, size_);
}

Buffer::~Buffer() { ::munmap(data_, std::max<std::size_t>(size_, 1)); }

// ---------------------------------------------------------------- members

void Team::barrier() const { ::pthread_barrier_wait(&shared_.groups[group_]); }

double Team::time(const std::function<void()>& work, int repeats) const {
  barrier();
  shared_.starts[rank_] = now_seconds();
  for (int i = 0; i < repeats; ++i) work();
  shared_.ends[rank_] = now_seconds();
  barrier();
  const double seconds =
      *std::max_element(shared_.ends, shared_.ends + size_) - *std::min_element(shared_.starts, shared_.starts + size_);
  barrier();  // nobody starts the next turn before all have read this one
  return seconds;
}

int Team::repeats_for(const std::function<void()>& work, double seconds) const {
  (void)time(work, 1);  // pages and caches are warm from here on
  int repeats = 1;
  while (repeats < (1 << 16) && time(work, repeats) < seconds) repeats *= 2;
  return repeats;
}

Ratio Team::compare(const std::function<void()>& ours, const std::function<void()>& rival, int turns,
                    double turn_seconds) const {
  const int repeats = std::max(repeats_for(ours, turn_seconds), repeats_for(rival, turn_seconds));
  std::vector<double> ratios;
  for (int i = 0; i < turns; ++i) {
    const bool ours_first = i % 2 == 0;
    const double first = time(ours_first ? ours : rival, repeats);
    const double second = time(ours_first ? rival : ours, repeats);
    ratios.push_back(ours_first ? second / first : first / second);
  }
  return spread_of(std::move(ratios));
}

double Team::sum(double value) const {
  shared_.values[rank_] = value;
  barrier();
  double total = 0;
  for (int i = 0; i < size_; ++i) total += shared_.values[i];
  barrier();
  return total;
}

void Team::in_turn(const std::function<void()>& work) const {
  for (int i = 0; i < size_; ++i) {
    if (i == rank_) work();
    barrier();
  }
}

std::byte* Team::shared_memory() const { return shared_.memory; }

namespace {

std::string connection_file(const TeamShared& shared, std::size_t store) {
  return concat(static_cast<const char*>(shared.folder), "/store-", store, ".toml");
}

}  // namespace

client::FileSystem Team::connect(std::size_t store, bool direct) const {
  client::ConnectOptions options;
  options.file_system = connection_file(shared_, store);
  options.direct = direct;
  options.timeout = std::chrono::milliseconds(60000);  // locks of sieving processes wait for each other
  return expect(client::FileSystem::connect(options));
}

int Team::server_process(std::size_t store, int index) const {
  return shared_.server_processes[store * static_cast<std::size_t>(shared_.servers) + static_cast<std::size_t>(index)];
}

std::string Team::folder() const { return shared_.folder; }

// ---------------------------------------------------------------- processes

namespace {

void init_barrier(pthread_barrier_t& barrier, int members) {
  pthread_barrierattr_t attributes;
  ::pthread_barrierattr_init(&attributes);
  ::pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_barrier_init(&barrier, &attributes, static_cast<unsigned>(members));
  ::pthread_barrierattr_destroy(&attributes);
}

class Processes {
 public:
  explicit Processes(const TeamOptions& options) : options_(options), key_(net::Key::random()) {
    const int servers = options.servers * static_cast<int>(options.stores.size());
    if (options.workers < 2 || options.workers > kMostMembers || servers > kMostMembers) give_up("too many processes");
    shared_ = new (map_memory(sizeof(TeamShared), MAP_SHARED)) TeamShared;
    shared_->servers = options.servers;
    init_barrier(shared_->everybody, servers + options.workers);
    init_barrier(shared_->groups[0], options.workers);
    init_barrier(shared_->groups[1], 2);
    shared_->memory = map_memory(options.shared_bytes, MAP_SHARED);
    const char* parent = std::getenv("TMPDIR");
    const std::string name = concat(parent != nullptr ? parent : "/tmp", "/weir-bench-XXXXXX");
    if (name.size() >= sizeof shared_->folder) give_up("the name of TMPDIR is too long");
    std::strcpy(shared_->folder, name.c_str());
    if (::mkdtemp(shared_->folder) == nullptr) give_up("no temporary folder " + name);
    if (::pipe(pipe_) != 0) give_up("no pipe");
  }

  ~Processes() {
    std::error_code ignored;
    std::filesystem::remove_all(shared_->folder, ignored);
  }

  void start_servers() {
    for (std::size_t store = 0; store < options_.stores.size(); ++store) {
      for (int index = 0; index < options_.servers; ++index) {
        servers_.push_back(start([&] { serve(store, index); }));
      }
    }
  }

  void start_workers(const std::function<void(Team&, Team*)>& body) {
    for (int rank = 0; rank < options_.workers; ++rank) {
      workers_.push_back(start([&] { work(rank, body); }));
    }
    ::close(pipe_[0]);
  }

  /// \returns false if any failed
  bool wait() {
    const bool is_good = wait_for(workers_);
    ::close(pipe_[1]);
    if (!is_good) {
      for (const pid_t server : servers_) ::kill(server, SIGKILL);
    }
    return wait_for(servers_) && is_good;
  }

 private:
  template <typename Main>
  pid_t start(Main main) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) give_up("cannot fork");
    if (child > 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(pipe_[1]);
    main();
    std::fflush(nullptr);
    ::_exit(0);
  }

  // Until all have ended, or one has failed: then the others would wait for it for ever.
  static bool wait_for(std::vector<pid_t>& children) {
    bool is_good = true;
    while (!children.empty()) {
      int status = 0;
      const pid_t child = ::waitpid(-1, &status, 0);
      if (child < 0) break;
      const auto found = std::find(children.begin(), children.end(), child);
      const bool is_ours = found != children.end();
      if (is_ours) children.erase(found);
      if (is_ours && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      is_good = false;
      for (const pid_t other : children) ::kill(other, SIGKILL);
    }
    return is_good;
  }

  void serve(std::size_t store, int index) {
    server::Options options;
    options.index = static_cast<std::uint32_t>(index);
    options.key = key_;
    options.store = options_.stores[store];
    if (options.store == "disk:") options.store += concat(static_cast<const char*>(shared_->folder), "/disk");
    options.file_system = store + 1;  // they start at the same time, and must not each choose one
    options.capacity_bytes = options_.capacity_bytes;
    const auto server = expect(server::Server::start(options));
    const std::size_t first = store * static_cast<std::size_t>(options_.servers);
    const std::string& address = server->address().text;
    if (address.size() >= sizeof shared_->addresses[0]) give_up("a server's address is too long");
    std::strcpy(shared_->addresses[first + static_cast<std::size_t>(index)], address.c_str());
    shared_->server_processes[first + static_cast<std::size_t>(index)] = ::getpid();
    ::pthread_barrier_wait(&shared_->everybody);
    if (const Status status = server->set_members(addresses_of(store)); !status.is_ok()) give_up(status.message());
    ::pthread_barrier_wait(&shared_->everybody);
    char nothing = 0;
    uninterrupted([&] { return ::read(pipe_[0], &nothing, 1); });
    server->stop();
  }

  void work(int rank, const std::function<void(Team&, Team*)>& body) {
    ::pthread_barrier_wait(&shared_->everybody);
    for (std::size_t store = 0; rank == 0 && store < options_.stores.size(); ++store) {
      const client::ConnectionFile file{key_, addresses_of(store)};
      expect(file.write(connection_file(*shared_, store)));
    }
    ::pthread_barrier_wait(&shared_->everybody);
    Team all(*shared_, 0, rank, options_.workers);
    Team pair(*shared_, 1, rank, 2);
    body(all, rank < 2 ? &pair : nullptr);
    all.barrier();
  }

  [[nodiscard]] std::vector<net::Address> addresses_of(std::size_t store) const {
    std::vector<net::Address> addresses;
    const auto servers = static_cast<std::size_t>(options_.servers);
    for (std::size_t i = 0; i < servers; ++i) addresses.push_back({shared_->addresses[store * servers + i]});
    return addresses;
  }

  const TeamOptions& options_;
  net::Key key_;
  TeamShared* shared_ = nullptr;
  int pipe_[2] = {-1, -1};
  std::vector<pid_t> servers_;
  std::vector<pid_t> workers_;
};

}  // namespace

int run_team(const TeamOptions& options, const std::function<void(Team&, Team*)>& body) {
  Processes processes(options);
  processes.start_servers();
  processes.start_workers(body);
  return processes.wait() ? 0 : 2;
}

}  // namespace weir::bench
