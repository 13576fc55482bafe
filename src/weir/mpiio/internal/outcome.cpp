#include <weir/mpiio/internal/outcome.h>

#include <weir/mpiio/internal/real.h>

namespace weir::mpiio::internal {

namespace {

int class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk: return MPI_SUCCESS;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange: return MPI_ERR_ARG;
    case ErrorCode::kNotFound: return MPI_ERR_NO_SUCH_FILE;
    case ErrorCode::kExists: return MPI_ERR_FILE_EXISTS;
    case ErrorCode::kNotDirectory:
    case ErrorCode::kIsDirectory: return MPI_ERR_BAD_FILE;
    case ErrorCode::kPermission: return MPI_ERR_ACCESS;
    case ErrorCode::kNoSpace: return MPI_ERR_NO_SPACE;
    case ErrorCode::kTooComplex:
    case ErrorCode::kCorrupt:
    case ErrorCode::kIoError:
    case ErrorCode::kNotEmpty:
    case ErrorCode::kStale:
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimedOut: return MPI_ERR_IO;
  }
  return MPI_ERR_IO;
}

}  // namespace

Outcome::Outcome(const Status& status) : error_class_(class_of(status.code())), message_(status.message()) {}

Outcome named(std::string_view call, const std::string& path, const Outcome& outcome) {
  if (outcome.is_ok() || outcome.message().starts_with(call)) return outcome;
  return fail(outcome.error_class(), call, " ", path, ": ", outcome.message());
}

Outcome from_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return Outcome::ok();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  int error_class = MPI_ERR_OTHER;
  if (WEIR_REAL(MPI_Error_string)(code, text, &length) != MPI_SUCCESS) length = 0;
  PMPI_Error_class(code, &error_class);
  return {error_class, concat(what, ": ", std::string_view(text, static_cast<std::size_t>(length)))};
}

}  // namespace weir::mpiio::internal
