// MPI_Wait, MPI_Test and their kin, so that accesses under way get on while a program waits, and their errors are told:
// see requests.h.  As long as there are none, MPI's own functions do it all.

#include <algorithm>
#include <vector>

#include <weir/base/backoff.h>
#include <weir/mpiio/internal/entry.h>
#include <weir/mpiio/internal/errors.h>
#include <weir/mpiio/internal/requests.h>

using namespace weir::mpiio::internal;  // NOLINT: this file defines functions of the global namespace only

namespace {

int tell(const FailedRequest& failed) {
  // The message begins with the call that began the access.
  const std::string& message = failed.status.message();
  trace::failed(failed.file->path(), message.substr(0, message.find(' ')), message);
  return handle_error(failed.status, failed.file->error_handler(), failed.file->handle());
}

// The requests of a call as they were before: MPI sets the handles of those that complete to MPI_REQUEST_NULL.
class Watch {
 public:
  Watch(int count, const MPI_Request* requests) : before_(requests, requests + std::max(count, 0)) {
    static_cast<void>(take_failed_requests());
  }

  // Of a call that completes one request.
  int result(int code, MPI_Status* status) {
    for (const FailedRequest& failed : take_failed_requests()) {
      code = tell(failed);
      if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = code;
    }
    return code;
  }

  // Of a call that completes several: `place(i)` is where the status of request i is, if it has one.
  template <typename Place>
  int result(int code, int status_count, MPI_Status* statuses, Place place) {
    const std::vector<FailedRequest> all = take_failed_requests();
    if (all.empty()) return code;
    const bool has_statuses = statuses != MPI_STATUSES_IGNORE;
    if (has_statuses && code != MPI_ERR_IN_STATUS) {
      std::for_each_n(statuses, status_count, [](MPI_Status& status) { status.MPI_ERROR = MPI_SUCCESS; });
    }
    for (const FailedRequest& failed : all) {
      const int told = tell(failed);
      if (told != MPI_SUCCESS) code = MPI_ERR_IN_STATUS;
      const auto found = std::find(before_.begin(), before_.end(), failed.request);
      if (!has_statuses || found == before_.end()) continue;
      if (MPI_Status* const status = place(static_cast<int>(found - before_.begin()))) status->MPI_ERROR = told;
    }
    return code;
  }

 private:
  std::vector<MPI_Request> before_;
};

// Repeats a test until it says that it is done, or fails.
template <typename Test>
int poll(Test test) {
  const trace::CallTimer timer;
  for (weir::Backoff backoff(weir::Backoff::kBytes);; backoff.pause()) {
    progress_requests();
    bool is_done = false;
    const int code = test(is_done);
    if (is_done || code != MPI_SUCCESS) return code;
  }
}

}  // namespace

WEIR_EXPORT int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (!has_requests()) return WEIR_REAL(MPI_Test)(request, flag, status);
  Watch watch(1, request);
  progress_requests();
  return watch.result(WEIR_REAL(MPI_Test)(request, flag, status), status);
}
WEIR_SECOND_NAME(int, MPI_Test, (MPI_Request * request, int* flag, MPI_Status* status))

WEIR_EXPORT int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  if (!has_requests()) return WEIR_REAL(MPI_Wait)(request, status);
  Watch watch(1, request);
  const int code = poll([&](bool& is_done) {
    int flag = 0;
    const int result = WEIR_REAL(MPI_Test)(request, &flag, status);
    is_done = flag != 0;
    return result;
  });
  return watch.result(code, status);
}
WEIR_SECOND_NAME(int, MPI_Wait, (MPI_Request * request, MPI_Status* status))

WEIR_EXPORT int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (!has_requests()) return WEIR_REAL(MPI_Request_get_status)(request, flag, status);
  progress_requests();
  const int code = WEIR_REAL(MPI_Request_get_status)(request, flag, status);
  static_cast<void>(take_failed_requests());  // told when the request is completed
  return code;
}
WEIR_SECOND_NAME(int, MPI_Request_get_status, (MPI_Request request, int* flag, MPI_Status* status))

WEIR_EXPORT int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status) {
  if (!has_requests()) return WEIR_REAL(MPI_Testany)(count, requests, index, flag, status);
  Watch watch(count, requests);
  progress_requests();
  return watch.result(WEIR_REAL(MPI_Testany)(count, requests, index, flag, status), status);
}
WEIR_SECOND_NAME(int, MPI_Testany, (int count, MPI_Request requests[], int* index, int* flag, MPI_Status* status))

WEIR_EXPORT int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  if (!has_requests()) return WEIR_REAL(MPI_Waitany)(count, requests, index, status);
  Watch watch(count, requests);
  const int code = poll([&](bool& is_done) {
    int flag = 0;
    const int result = WEIR_REAL(MPI_Testany)(count, requests, index, &flag, status);
    is_done = flag != 0;
    return result;
  });
  return watch.result(code, status);
}
WEIR_SECOND_NAME(int, MPI_Waitany, (int count, MPI_Request requests[], int* index, MPI_Status* status))

WEIR_EXPORT int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  if (!has_requests()) return WEIR_REAL(MPI_Testall)(count, requests, flag, statuses);
  Watch watch(count, requests);
  progress_requests();
  const int code = WEIR_REAL(MPI_Testall)(count, requests, flag, statuses);
  return watch.result(code, count, statuses, [&](int i) { return statuses + i; });
}
WEIR_SECOND_NAME(int, MPI_Testall, (int count, MPI_Request requests[], int* flag, MPI_Status statuses[]))

WEIR_EXPORT int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  if (!has_requests()) return WEIR_REAL(MPI_Waitall)(count, requests, statuses);
  Watch watch(count, requests);
  const int code = poll([&](bool& is_done) {
    int flag = 0;
    const int result = WEIR_REAL(MPI_Testall)(count, requests, &flag, statuses);
    is_done = flag != 0;
    return result;
  });
  return watch.result(code, count, statuses, [&](int i) { return statuses + i; });
}
WEIR_SECOND_NAME(int, MPI_Waitall, (int count, MPI_Request requests[], MPI_Status statuses[]))

WEIR_EXPORT int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  if (!has_requests()) return WEIR_REAL(MPI_Testsome)(count, requests, done, indices, statuses);
  Watch watch(count, requests);
  progress_requests();
  const int code = WEIR_REAL(MPI_Testsome)(count, requests, done, indices, statuses);
  return watch.result(code, std::max(*done, 0), statuses, [&](int i) -> MPI_Status* {
    const auto found = std::find(indices, indices + *done, i);
    return found == indices + *done ? nullptr : statuses + (found - indices);
  });
}
WEIR_SECOND_NAME(int, MPI_Testsome,
                 (int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]))

WEIR_EXPORT int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]) {
  if (!has_requests()) return WEIR_REAL(MPI_Waitsome)(count, requests, done, indices, statuses);
  return poll([&](bool& is_done) {
    const int code = MPI_Testsome(count, requests, done, indices, statuses);
    is_done = *done != 0;  // also MPI_UNDEFINED: no request was active
    return code;
  });
}
WEIR_SECOND_NAME(int, MPI_Waitsome,
                 (int count, MPI_Request requests[], int* done, int indices[], MPI_Status statuses[]))
