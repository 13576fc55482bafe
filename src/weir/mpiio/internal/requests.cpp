#include <weir/mpiio/internal/requests.h>

#include <atomic>
#include <list>
#include <mutex>

#include <weir/mpiio/internal/errors.h>

namespace weir::mpiio::internal {

namespace {

struct Operation {
  Operation(std::shared_ptr<File> its_file, ProgramAccess its_program, pario::Pending its_pending)
      : file(std::move(its_file)), program(std::move(its_program)), pending(std::move(its_pending)) {}

  std::shared_ptr<File> file;
  ProgramAccess program;
  pario::Pending pending;
  MPI_Request request = MPI_REQUEST_NULL;
  Status status;                     // once it is done
  std::atomic<bool> is_done{false};  // MPI may ask for the status in another thread

  bool test() {
    if (!pending.test()) return false;
    finish();
    return true;
  }
  void finish() {
    const Status moved = pending.wait();
    status = program.conclude(moved, pending.result());
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
  operation.program.fill(status);
  if (!operation.status.is_ok()) failed_here().push_back({operation.request, operation.file, operation.status});
  return MPI_SUCCESS;
}

int release(void* state) {
  const std::unique_ptr<SharedOperation> operation(static_cast<SharedOperation*>(state));
  static_cast<void>((*operation)->is_done.load());
  if (!(*operation)->status.is_ok()) --watched;
  return MPI_SUCCESS;
}

int cancel(void*, int) { return MPI_SUCCESS; }  // too late for that: bytes are on their way

// The access is done: tell MPI.  It may let go of the request at once.
void complete(const SharedOperation& operation) {
  if (operation->status.is_ok()) --watched;
  operation->is_done = true;
  PMPI_Grequest_complete(operation->request);
}

}  // namespace

Status make_request(std::shared_ptr<File> file, ProgramAccess program, pario::Pending pending, MPI_Request* request) {
  auto operation = std::make_shared<Operation>(std::move(file), std::move(program), std::move(pending));
  auto state = std::make_unique<SharedOperation>(operation);
  WEIR_RETURN_IF_ERROR(
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
  return Status::ok();
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
    operation->finish();
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
