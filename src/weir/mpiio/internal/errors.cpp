#include <weir/mpiio/internal/errors.h>

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <weir/mpiio/internal/real.h>
#include <weir/mpiio/internal/running.h>

namespace weir::mpiio::internal {

namespace {

constexpr std::size_t kCodesPerClass = 16;

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
    case ErrorCode::kQuota: return MPI_ERR_QUOTA;
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

class Codes {
 public:
  int give(int error_class, const std::string& message) {
    const std::lock_guard lock(mutex_);
    Turn& turn = turns_[error_class];
    if (turn.codes.size() < kCodesPerClass) {
      int code = MPI_SUCCESS;
      if (PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS) return error_class;
      PMPI_Add_error_string(code, message.substr(0, MPI_MAX_ERROR_STRING - 1).c_str());
      turn.codes.push_back(code);
    }
    const int code = turn.codes[turn.next++ % kCodesPerClass];
    messages_[code] = message;
    return code;
  }

  std::optional<std::string> message(int code) {
    const std::lock_guard lock(mutex_);
    const auto found = messages_.find(code);
    if (found == messages_.end()) return std::nullopt;
    return found->second;
  }

 private:
  struct Turn {
    std::vector<int> codes;
    std::size_t next = 0;
  };
  std::mutex mutex_;
  std::map<int, Turn> turns_;
  std::unordered_map<int, std::string> messages_;
};

// Never destroyed: programs may ask for a message while they end.
Codes& codes() {
  static auto* const all = new Codes;
  return *all;
}

}  // namespace

Status from_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return Status::ok();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  int error_class = MPI_ERR_OTHER;
  if (WEIR_REAL(MPI_Error_string)(code, text, &length) != MPI_SUCCESS) length = 0;
  PMPI_Error_class(code, &error_class);
  return fail(error_class, what, ": ", std::string_view(text, static_cast<std::size_t>(length)));
}

int class_of(const Status& status) {
  const int detail = status.detail();
  if (detail >= pario::kFirstOfCaller) return detail - pario::kFirstOfCaller;
  switch (detail) {
    case pario::kRanksDiffer: return MPI_ERR_NOT_SAME;
    case pario::kReadOnly: return MPI_ERR_READ_ONLY;
    case pario::kMisuse: return MPI_ERR_IO;
    case pario::kOtherBuffer: return MPI_ERR_BUFFER;
    case pario::kBadHint: return MPI_ERR_INFO_VALUE;
    default: return class_of(status.code());
  }
}

int error_code(const Status& status) {
  if (status.is_ok() || !is_mpi_running()) return class_of(status);
  return codes().give(class_of(status), status.message());
}

std::optional<std::string> message_of(int code) { return codes().message(code); }

}  // namespace weir::mpiio::internal
