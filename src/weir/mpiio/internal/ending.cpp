#include <weir/mpiio/internal/ending.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include <weir/base/hash.h>
#include <weir/client/file_system.h>
#include <weir/mpiio/internal/real.h>
#include <weir/mpiio/internal/running.h>

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

int wait_for_all(MPI_Comm, int, void*, void*) {
  using Clock = std::chrono::steady_clock;
  // Of the host, and of all hosts.
  struct Words {
    std::array<std::uint64_t, 2> mine{};
    std::array<std::uint64_t, 2> most{};
  };
  const std::uint64_t host = hash_of(client::FileSystem::this_host());
  auto words = std::make_unique<Words>(Words{{host, ~host}, {}});
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      PMPI_Iallreduce(words->mine.data(), words->most.data(), 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD, &request);
  const Clock::time_point deadline = Clock::now() + longest_wait();
  const Status status = mpi::await("MPI_Finalize", code, request,
                                   {.awake = Backoff::kMessages,
                                    .is_too_long = [&] { return Clock::now() > deadline; },
                                    .test = WEIR_REAL(MPI_Test)});
  if (!status.is_ok()) {
    static_cast<void>(words.release());  // MPI may still use it
  } else if (words->most[0] != ~words->most[1]) {
    // From here to their last messages, ranks leave those of others alone.
    std::this_thread::sleep_for(kLeave);
  }
  return MPI_SUCCESS;
}

}  // namespace

void begin_finalize_together(MPI_Comm comm) noexcept {
  static const bool is_needed = has_bad_finalize();
  if (!is_needed) return;
  int relation = MPI_UNEQUAL;
  if (PMPI_Comm_compare(comm, MPI_COMM_WORLD, &relation) != MPI_SUCCESS || relation == MPI_UNEQUAL) return;
  static std::once_flag once;
  std::call_once(once, [] {
    // MPI_Finalize begins by deleting the attributes of MPI_COMM_SELF.
    int key = MPI_KEYVAL_INVALID;
    if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, wait_for_all, &key, nullptr) != MPI_SUCCESS) return;
    PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
    PMPI_Comm_free_keyval(&key);
  });
}

}  // namespace weir::mpiio::internal
