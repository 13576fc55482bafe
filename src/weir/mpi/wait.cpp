#include <weir/mpi/wait.h>

#include <weir/base/text.h>

namespace weir::mpi {

namespace {

constexpr int kLooksBetween = 64;  // at the request, for each question whether it takes too long

}  // namespace

bool is_mpi_running() noexcept {
  int is_initialized = 0;
  int is_finalized = 0;
  PMPI_Initialized(&is_initialized);
  PMPI_Finalized(&is_finalized);
  return is_initialized != 0 && is_finalized == 0;
}

Status check_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return Status::ok();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (PMPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  return {ErrorCode::kIoError, concat(what, ": ", std::string_view(text, static_cast<std::size_t>(length)))};
}

Status await(std::string_view what, int code, MPI_Request& request, const Wait& wait) {
  WEIR_RETURN_IF_ERROR(check_mpi(code, what));
  Backoff backoff(wait.awake);
  for (int looks = 1;; ++looks) {
    int is_done = 0;
    WEIR_RETURN_IF_ERROR(check_mpi(wait.test(&request, &is_done, MPI_STATUS_IGNORE), what));
    if (is_done != 0) return Status::ok();
    backoff.pause();
    if (looks % kLooksBetween == 0 && wait.is_too_long && wait.is_too_long()) {
      return {ErrorCode::kTimedOut, concat(what, ": took too long")};
    }
  }
}

}  // namespace weir::mpi
