#include <weir/base/os_error.h>

#include <system_error>

#include <weir/base/text.h>

namespace weir {

namespace {

ErrorCode code_of_errno(int error) noexcept {
  switch (error) {
    case ENOENT: return ErrorCode::kNotFound;
    case EEXIST: return ErrorCode::kExists;
    case EROFS:
    case EACCES:
    case EPERM: return ErrorCode::kPermission;
    // EFBIG: the file system's or the process's limit for one file.  To the caller that is room it cannot have.
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return ErrorCode::kNoSpace;
    default: return ErrorCode::kIoError;
  }
}

}  // namespace

Status os_error(std::string_view what, int error) { return os_error(code_of_errno(error), what, error); }

Status os_error(std::string_view operation, std::string_view path, int error) {
  return os_error(concat(operation, " ", path), error);
}

Status os_error(ErrorCode code, std::string_view what, int error) {
  return {code, concat(what, ": ", std::generic_category().message(error))};
}

}  // namespace weir
