#include "mpiio_calls.h"

#include <csignal>
#include <map>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpiio_files.h"

namespace weir::mpiio_bench {

namespace {

constexpr int kCallsInATurn = 20;
const std::string kOurs = "weir";

struct Entrant {
  std::string name;
  std::string path;
};

// Weir first.
std::vector<Entrant> entrants(const Settings& settings, const std::string& what) {
  const std::string tmpfs = settings.tmpfs + file_name() + what;
  local_files().insert(tmpfs);
  return {{kOurs, "weir:/mpiio_bench_" + what}, {"tmpfs", tmpfs}};
}

MPI_File open_file(const std::string& path) {
  MPI_File file = MPI_FILE_NULL;
  require_mpi(MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file),
              "open " + path);
  return file;
}

void remove_file(const std::string& path) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == 0) MPI_File_delete(path.c_str(), MPI_INFO_NULL);  // it need not exist
  MPI_Barrier(MPI_COMM_WORLD);
}

/// By contender and call, the seconds of each turn.
using Times = std::map<std::string, std::map<std::string, std::vector<double>>>;

void print_all(const std::vector<Entrant>& all, Times& times, const std::string& name, const char* way,
               std::initializer_list<const char*> calls, Offset bytes, const PrintRow& print) {
  if (world_rank() != 0) return;
  for (const char* call : calls) {
    for (const Entrant& one : all)
      print({name, way, call, one.name, times[one.name][call], &times[kOurs][call], bytes});
  }
}

/// Each rank's part one after the other, `transfer` bytes in each call.
class Transfers {
 public:
  Transfers(const Settings& settings, Offset transfer, bool collective)
      : transfer_(transfer),
        count_(std::max<Offset>(settings.bytes_per_rank / transfer, 1)),
        collective_(collective),
        memory_(static_cast<std::size_t>(transfer)) {}

  [[nodiscard]] Offset bytes() const { return count_ * transfer_ * world_size(); }

  void write(MPI_File file) {
    for (Offset i = 0; i < count_; ++i) {
      fill(i);
      const MPI_Offset at = place(world_rank(), i);
      const int size = static_cast<int>(transfer_);
      require_mpi(collective_ ? MPI_File_write_at_all(file, at, memory_.data(), size, MPI_BYTE, MPI_STATUS_IGNORE)
                              : MPI_File_write_at(file, at, memory_.data(), size, MPI_BYTE, MPI_STATUS_IGNORE),
                  "write");
    }
  }

  void read(MPI_File file) {
    const int from = (world_rank() + 1) % world_size();
    for (Offset i = 0; i < count_; ++i) {
      const MPI_Offset at = place(from, i);
      const int size = static_cast<int>(transfer_);
      require_mpi(collective_ ? MPI_File_read_at_all(file, at, memory_.data(), size, MPI_BYTE, MPI_STATUS_IGNORE)
                              : MPI_File_read_at(file, at, memory_.data(), size, MPI_BYTE, MPI_STATUS_IGNORE),
                  "read");
      require(memory_.front() == content(at) && memory_.back() == content(at + transfer_ - 1), "read: other bytes");
    }
  }

 private:
  [[nodiscard]] MPI_Offset place(int rank, Offset i) const { return (rank * count_ + i) * transfer_; }
  /// Only the ends, which are looked at: what a program does between calls is not measured here.
  void fill(Offset i) {
    const MPI_Offset at = place(world_rank(), i);
    memory_.front() = content(at);
    memory_.back() = content(at + transfer_ - 1);
  }

  Offset transfer_;
  Offset count_;
  bool collective_;
  std::vector<std::byte> memory_;
};

void measure_transfer(const Settings& settings, const std::string& name, Offset transfer, bool collective,
                      const PrintRow& print) {
  Times times;
  Transfers transfers(settings, transfer, collective);
  const std::vector<Entrant> all = entrants(settings, "transfers");
  for (int repeat = 0; repeat < settings.repeats; ++repeat) {
    for (const Entrant& one : all) {
      remove_file(one.path);
      MPI_File file = open_file(one.path);
      times[one.name]["write"].push_back(seconds_of([&] { transfers.write(file); }));
      times[one.name]["read"].push_back(seconds_of([&] { transfers.read(file); }));
      MPI_File_close(&file);
      if (one.name == kOurs) ::usleep(static_cast<useconds_t>(settings.rest_ms) * 1000);
    }
  }
  for (const Entrant& one : all) remove_file(one.path);
  print_all(all, times, name, collective ? "collective" : "independent", {"write", "read"}, transfers.bytes(), print);
}

}  // namespace

void measure_small_calls(const Settings& settings, const PrintRow& print) {
  if (std::string("calls").find(settings.cases) == std::string::npos) return;
  Times times;
  const std::vector<Entrant> all = entrants(settings, "calls");
  for (int repeat = 0; repeat <= settings.repeats; ++repeat) {  // the first loads libraries, and does not count
    for (const Entrant& one : all) {
      std::map<std::string, double> sums;
      for (int i = 0; i < kCallsInATurn; ++i) {
        MPI_File file = MPI_FILE_NULL;
        sums["open"] += seconds_of([&] { file = open_file(one.path); });
        sums["set_size"] += seconds_of([&] { MPI_File_set_size(file, 1000 + i); });
        sums["close"] += seconds_of([&] { MPI_File_close(&file); });
      }
      if (repeat == 0) continue;
      for (const auto& [call, sum] : sums) times[one.name][call].push_back(sum / kCallsInATurn);
    }
  }
  for (const Entrant& one : all) remove_file(one.path);
  print_all(all, times, "calls", "collective", {"open", "set_size", "close"}, 0, print);
}

void measure_transfers(const Settings& settings, const PrintRow& print) {
  constexpr std::pair<const char*, Offset> kTransfers[] = {
      {"transfers of 4 KiB", 4096}, {"transfers of 47,008 B", 47008}, {"transfers of 1 MiB", 1 << 20}};
  for (const auto& [name, bytes] : kTransfers) {
    if (std::string(name).find(settings.cases) == std::string::npos) continue;
    for (const bool collective : {false, true}) measure_transfer(settings, name, bytes, collective, print);
  }
}

BusyLoops::BusyLoops(int count) {
  if (world_rank() != 0) return;
  // Should this process be killed, they end by themselves.
  const std::string script = "while kill -0 " + std::to_string(::getpid()) +
                             " 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done";
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  for (int i = 0; i < count; ++i) {
    std::string words[] = {"sh", "-c", script};
    char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    char* const nothing[] = {nullptr};  // nothing is preloaded
    pid_t process = -1;
    require(::posix_spawn(&process, "/bin/sh", nullptr, &attributes, arguments, nothing) == 0, "start a busy loop");
    processes_.push_back(process);
  }
  ::posix_spawnattr_destroy(&attributes);
}

BusyLoops::~BusyLoops() {
  for (const int process : processes_) ::kill(process, SIGKILL);
  for (const int process : processes_) ::waitpid(process, nullptr, 0);
}

}  // namespace weir::mpiio_bench
