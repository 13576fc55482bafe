#include <weir/capi/internal/errors.h>

#include <cerrno>
#include <string>

namespace weir::capi::internal {

namespace {

std::string& message() noexcept {
  static thread_local std::string text;
  return text;
}

}  // namespace

int to_errno(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kOk: return 0;
    case ErrorCode::kInvalidArgument: return EINVAL;
    case ErrorCode::kOutOfRange: return EOVERFLOW;
    case ErrorCode::kTooComplex: return E2BIG;
    case ErrorCode::kCorrupt: return EBADMSG;
    case ErrorCode::kIoError: return EIO;
    case ErrorCode::kNotFound: return ENOENT;
    case ErrorCode::kExists: return EEXIST;
    case ErrorCode::kNotDirectory: return ENOTDIR;
    case ErrorCode::kIsDirectory: return EISDIR;
    case ErrorCode::kNotEmpty: return ENOTEMPTY;
    case ErrorCode::kPermission: return EACCES;
    case ErrorCode::kNoSpace: return ENOSPC;
    case ErrorCode::kStale: return ESTALE;
    case ErrorCode::kUnavailable: return EHOSTUNREACH;
    case ErrorCode::kTimedOut: return ETIMEDOUT;
    case ErrorCode::kQuota: return EDQUOT;
  }
  return EIO;
}

void note_error(const Status& status) noexcept {
  try {
    message() = status.message();
  } catch (...) {
    message().clear();
  }
  errno = to_errno(status.code());
}

const char* last_error() noexcept { return message().c_str(); }

}  // namespace weir::capi::internal
