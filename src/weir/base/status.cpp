#include <weir/base/status.h>

#include <utility>

namespace weir {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kOk: return "ok";
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kOutOfRange: return "out of range";
    case ErrorCode::kTooComplex: return "too complex";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kIoError: return "I/O error";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kExists: return "exists";
    case ErrorCode::kNotDirectory: return "not a directory";
    case ErrorCode::kIsDirectory: return "is a directory";
    case ErrorCode::kNotEmpty: return "not empty";
    case ErrorCode::kPermission: return "permission denied";
    case ErrorCode::kNoSpace: return "no space";
    case ErrorCode::kStale: return "stale";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kTimedOut: return "timed out";
    case ErrorCode::kQuota: return "quota exceeded";
  }
  return "unknown error";
}

Status::Status(ErrorCode code, std::string message, std::optional<std::int64_t> location) {
  if (code != ErrorCode::kOk) {
    rep_ = std::make_shared<const Rep>(Rep{code, std::move(message), location});
  }
}

Status Status::with_detail(int detail) const {
  Status status;
  if (rep_) status.rep_ = std::make_shared<const Rep>(Rep{rep_->code, rep_->message, rep_->location, detail});
  return status;
}

const std::string& Status::message() const noexcept {
  static const std::string none;
  return rep_ ? rep_->message : none;
}

}  // namespace weir
