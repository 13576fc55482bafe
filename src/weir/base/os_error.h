#pragma once

#include <cerrno>
#include <string_view>

#include <weir/base/status.h>

namespace weir {

/// A failed system call: "<what>: <text of the error>".  The code is kNotFound, kExists, kPermission or kNoSpace where
/// `error` says so, otherwise kIoError.
Status os_error(std::string_view what, int error = errno);
/// The same of a file: "<operation> <path>: <text of the error>".
Status os_error(std::string_view operation, std::string_view path, int error);
/// With the code that is given.
Status os_error(ErrorCode code, std::string_view what, int error = errno);

}  // namespace weir
