#include <weir/redist/comm.h>

#include <utility>

#include <weir/base/backoff.h>
#include <weir/base/text.h>

namespace weir::redist {

namespace {

bool is_mpi_running() {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

}  // namespace

Status check_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return Status::ok();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  return {ErrorCode::kIoError,
          concat("redistribution: ", what, ": ", std::string_view(text, static_cast<std::size_t>(length)))};
}

Status await(int code, MPI_Request& request, std::string_view what) {
  WEIR_RETURN_IF_ERROR(check_mpi(code, what));
  for (Backoff backoff(Backoff::kBytes);; backoff.pause()) {
    int is_done = 0;
    WEIR_RETURN_IF_ERROR(check_mpi(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), what));
    if (is_done != 0) return Status::ok();
  }
}

Result<Comm> Comm::duplicate(MPI_Comm parent) {
  if (!is_mpi_running()) {
    return invalid_argument("redistribution: MPI is not running: call MPI_Init before and MPI_Finalize after");
  }
  if (parent == MPI_COMM_NULL) return invalid_argument("redistribution: the communicator is MPI_COMM_NULL");
  int is_inter = 0;
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_test_inter(parent, &is_inter), "MPI_Comm_test_inter"));
  if (is_inter != 0) {
    return invalid_argument("redistribution: the communicator joins two groups: merge them with MPI_Intercomm_merge");
  }
  Comm comm;
  MPI_Request request = MPI_REQUEST_NULL;
  WEIR_RETURN_IF_ERROR(await(MPI_Comm_idup(parent, &comm.comm_, &request), request, "MPI_Comm_idup"));
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_set_errhandler(comm.comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_rank(comm.comm_, &comm.rank_), "MPI_Comm_rank"));
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_size(comm.comm_, &comm.size_), "MPI_Comm_size"));
  return comm;
}

Comm::Comm(Comm&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)), rank_(other.rank_), size_(other.size_) {}

Comm& Comm::operator=(Comm&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  return *this;
}

Comm::~Comm() {
  if (comm_ != MPI_COMM_NULL && is_mpi_running()) MPI_Comm_free(&comm_);
}

}  // namespace weir::redist
