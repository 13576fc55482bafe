#include <weir/mpiio/internal/ending.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <weir/base/backoff.h>
#include <weir/client/file_system.h>
#include <weir/mpiio/internal/meeting.h>
#include <weir/mpiio/internal/real.h>

namespace weir::mpiio::internal {

namespace {

// Longer than it takes from the first to the last rank to see that all have come.
constexpr std::chrono::milliseconds kLeave{50};

bool has_bad_finalize() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (PMPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return false;
  int major = 0;
  int minor = 0;
  if (std::sscanf(text.data(), "MPICH Version: %d.%d", &major, &minor) != 2) return false;
  return (major < 4 || (major == 4 && minor < 2)) && std::strstr(text.data(), "ch4:ucx") != nullptr;
}

// In: the host of this rank; out: whether all ranks are on one.
struct Hosts {
  std::array<std::int64_t, 2> mine;
  std::array<std::int64_t, 2> most;

  explicit Hosts(std::size_t host)
      : mine{static_cast<std::int64_t>(host >> 1), -static_cast<std::int64_t>(host >> 1)} {}
  [[nodiscard]] bool is_one() const { return most[0] == -most[1]; }
};

int wait_for_all(MPI_Comm, int, void*, void*) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + longest_wait();
  auto hosts = std::make_unique<Hosts>(std::hash<std::string>()(client::FileSystem::this_host()));
  MPI_Request request = MPI_REQUEST_NULL;
  int has_come = 0;
  int code = PMPI_Iallreduce(hosts->mine.data(), hosts->most.data(), 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD, &request);
  for (Backoff backoff; code == MPI_SUCCESS && has_come == 0 && Clock::now() < deadline; backoff.pause()) {
    code = WEIR_REAL(MPI_Test)(&request, &has_come, MPI_STATUS_IGNORE);
  }
  if (has_come == 0) {
    static_cast<void>(hosts.release());  // MPI may still use it
  } else if (!hosts->is_one()) {
    // From here to their last messages, ranks leave those of others alone.
    std::this_thread::sleep_for(kLeave);
  }
  return MPI_SUCCESS;
}

}  // namespace

void begin_finalize_together(MPI_Comm comm) noexcept {
  int relation = MPI_UNEQUAL;
  if (PMPI_Comm_compare(comm, MPI_COMM_WORLD, &relation) != MPI_SUCCESS || relation == MPI_UNEQUAL) return;
  static std::once_flag once;
  std::call_once(once, [] {
    if (!has_bad_finalize()) return;
    // MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF.
    int key = MPI_KEYVAL_INVALID;
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, wait_for_all, &key, nullptr) != MPI_SUCCESS) return;
    PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
    PMPI_Comm_free_keyval(&key);
  });
}

}  // namespace weir::mpiio::internal
