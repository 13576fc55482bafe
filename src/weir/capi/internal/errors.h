#pragma once

// The border between C++ and C: a Status becomes errno and a text, and no exception gets through.

#include <new>
#include <utility>

#include <weir/base/result.h>

namespace weir::capi::internal {

int to_errno(ErrorCode code) noexcept;

/// Keeps the message for weir_last_error() and sets errno.
void note_error(const Status& status) noexcept;
const char* last_error() noexcept;

/// Runs `body`, which returns a Result<T>.  \returns its value, or `failed` after noting the error.
template <typename T, typename Body>
T guarded(T failed, Body body) noexcept {
  try {
    Result<T> result = body();
    if (result.is_ok()) return *std::move(result);
    note_error(result.status());
  } catch (const std::bad_alloc&) {
    note_error(Status(ErrorCode::kNoSpace, "out of memory"));
  } catch (...) {
    note_error(Status(ErrorCode::kIoError, "unexpected exception"));
  }
  return failed;
}

/// Runs `body`, which returns a Status.  \returns 0 or -1.
template <typename Body>
int guarded_status(Body body) noexcept {
  return guarded<int>(-1, [&]() -> Result<int> {
    WEIR_RETURN_IF_ERROR(body());
    return 0;
  });
}

}  // namespace weir::capi::internal
