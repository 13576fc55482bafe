#pragma once

// How the functions that we define for programs are written.

#include <new>

#include <weir/mpiio/internal/errors.h>
#include <weir/mpiio/internal/handlers.h>
#include <weir/mpiio/internal/real.h>
#include <weir/mpiio/internal/registry.h>
#include <weir/mpiio/internal/trace.h>

namespace weir::mpiio::internal {

using weir::Status;  // for sources that define functions of the global namespace

/// Runs `work`, which returns a Status, and lets nothing be thrown at a C program.
template <typename Work>
Status guarded(const char* call, Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fail(MPI_ERR_NO_MEM, call, ": out of memory");
  } catch (const std::exception& error) {
    return fail(MPI_ERR_INTERN, call, ": ", error.what());
  }
}

/// A function of a file: `ours(file)` if the handle is one of ours, otherwise `real()`.
template <typename Ours, typename Real>
int dispatch(const char* call, MPI_File handle, Ours ours, Real real) {
  if (const std::shared_ptr<File> file = find_file(handle)) {
    const Status status = guarded(call, [&] {
      const trace::CallTimer timer;
      return ours(*file);
    });
    if (!status.is_ok()) trace::failed(file->path(), call, status.message());
    return handle_error(pario::named(call, file->path(), status), file->error_handler(), handle);
  }
  if (is_closed_file(handle)) {
    const Status status = fail(MPI_ERR_FILE, call, ": the file has been closed");
    trace::failed("a closed file", call, status.message());
    return handle_error(status, default_handler(), MPI_FILE_NULL);
  }
  return real();
}

}  // namespace weir::mpiio::internal

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))

/// The same function under its second name: see real.h.
#define WEIR_SECOND_NAME(result, name, parameters) WEIR_EXPORT result P##name parameters __attribute__((alias(#name)));

/// Defines a function of `fh`; the rest is its body if the file is ours, with `file` and `call`.
#define WEIR_FILE_FUNCTION(name, parameters, arguments, ...)                  \
  WEIR_EXPORT int name parameters {                                           \
    [[maybe_unused]] constexpr const char* call = #name;                      \
    return dispatch(                                                          \
        call, fh, [&]([[maybe_unused]] File& file) -> Status { __VA_ARGS__ }, \
        [&] { return WEIR_REAL(name) arguments; });                           \
  }                                                                           \
  WEIR_SECOND_NAME(int, name, parameters)
