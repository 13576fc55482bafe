#include <weir/mpiio/internal/requests.h>

#include <atomic>
#include <list>
#include <mutex>

#include <weir/mpiio/internal/transfer.h>

namespace weir::mpiio::internal {

namespace {

struct Operation {
  std::shared_ptr<File> file;
  std::unique_ptr<Transfer> transfer;
  MPI_Request request = MPI_REQUEST_NULL;
  Outcome outcome;                   // once it is done
  std::atomic<bool> is_done{false};  // MPI may ask for the outcome in another thread

  bool test() {
    if (!transfer->test()) return false;
    outcome = transfer->outcome();
    return true;
  }
};
using SharedOperation = std::shared_ptr<Operation>;

struct UnderWay {
  std::mutex mutex;
  std::list<SharedOperation> operations;
};
UnderWay& under_way() {
  static auto* const all = new UnderWay;
  return *all;
}

std::atomic<int> watched{0};  // operations under way, and failed ones that MPI has not let go of

std::vector<FailedRequest>& failed_here() {
  thread_local std::vector<FailedRequest> failed;
  return failed;
}

// ---- what MPI calls for a generalized request; `state` is the Operation, owned by the request

int query(void* state, MPI_Status* status) {
  const Operation& operation = **static_cast<SharedOperation*>(state);
  static_cast<void>(operation.is_done.load());
  operation.transfer->fill(status);
  if (!operation.outcome.is_ok()) failed_here().push_back({operation.request, operation.file, operation.outcome});
  return MPI_SUCCESS;
}

int release(void* state) {
  const std::unique_ptr<SharedOperation> operation(static_cast<SharedOperation*>(state));
  static_cast<void>((*operation)->is_done.load());
  if (!(*operation)->outcome.is_ok()) --watched;
  return MPI_SUCCESS;
}

int cancel(void*, int) { return MPI_SUCCESS; }  // too late for that: bytes are on their way

// The transfer is done: tell MPI.  It may let go of the request at once.
void complete(const SharedOperation& operation) {
  if (operation->outcome.is_ok()) --watched;
  operation->is_done = true;
  PMPI_Grequest_complete(operation->request);
}

}  // namespace

Outcome make_request(std::shared_ptr<File> file, std::unique_ptr<Transfer> transfer, MPI_Request* request) {
  auto operation = std::make_shared<Operation>();
  operation->file = std::move(file);
  operation->transfer = std::move(transfer);
  auto state = std::make_unique<SharedOperation>(operation);
  WEIR_PASS(
      from_mpi(PMPI_Grequest_start(query, release, cancel, state.get(), &operation->request), "MPI_Grequest_start"));
  static_cast<void>(state.release());
  *request = operation->request;
  ++watched;
  if (operation->test()) {
    complete(operation);
  } else {
    const std::lock_guard lock(under_way().mutex);
    under_way().operations.push_back(std::move(operation));
  }
  return Outcome::ok();
}

void finish_requests(const File& file) {
  std::list<SharedOperation> its;
  {
    const std::lock_guard lock(under_way().mutex);
    auto& operations = under_way().operations;
    for (auto at = operations.begin(); at != operations.end();) {
      const auto next = std::next(at);
      if ((*at)->file.get() == &file) its.splice(its.end(), operations, at);
      at = next;
    }
  }
  for (const auto& operation : its) {
    operation->outcome = operation->transfer->finish();
    complete(operation);
  }
}

bool has_requests() noexcept { return watched.load(std::memory_order_relaxed) != 0; }

void progress_requests() {
  std::list<SharedOperation> done;
  {
    const std::unique_lock lock(under_way().mutex, std::try_to_lock);
    if (!lock.owns_lock()) return;  // another thread is at it
    auto& operations = under_way().operations;
    for (auto at = operations.begin(); at != operations.end();) {
      const auto next = std::next(at);
      if ((*at)->test()) done.splice(done.end(), operations, at);
      at = next;
    }
  }
  for (const auto& operation : done) complete(operation);
}

std::vector<FailedRequest> take_failed_requests() { return std::exchange(failed_here(), {}); }

}  // namespace weir::mpiio::internal
