#include <weir/mpiio/internal/handlers.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <set>

#include <weir/log/log.h>
#include <weir/mpiio/internal/errors.h>
#include <weir/mpiio/internal/real.h>
#include <weir/mpiio/internal/running.h>

namespace weir::mpiio::internal {

namespace {

struct Known {
  std::mutex mutex;
  std::map<MPI_Errhandler, MPI_File_errhandler_function*> functions;
  std::set<MPI_Errhandler> kept;
};

Known& known() {
  static auto* const all = new Known;  // never destroyed: errors may come while the program ends
  return *all;
}

MPI_File_errhandler_function* function_of(MPI_Errhandler handler) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().functions.find(handler);
  return found == known().functions.end() ? nullptr : found->second;
}

bool is_fatal(MPI_Errhandler handler) {
#ifdef MPI_ERRORS_ABORT
  if (handler == MPI_ERRORS_ABORT) return true;
#endif
  return handler == MPI_ERRORS_ARE_FATAL;
}

[[noreturn]] void end_program(int code) {
  const std::string message = message_of(code).value_or(concat("error code ", code));
  std::fprintf(stderr, "weir: %s\nweir: the error handler of the file is MPI_ERRORS_ARE_FATAL\n", message.c_str());
  PMPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

// A handler that was made without our knowledge, by Fortran or before we were loaded: MPI can call it for MPI_FILE_NULL.
void call_unknown(MPI_Errhandler handler, int code) {
  const MPI_Errhandler own = default_handler();
  const bool is_called = WEIR_REAL(MPI_File_set_errhandler)(MPI_FILE_NULL, handler) == MPI_SUCCESS &&
                         WEIR_REAL(MPI_File_call_errhandler)(MPI_FILE_NULL, code) == MPI_SUCCESS;
  WEIR_REAL(MPI_File_set_errhandler)(MPI_FILE_NULL, own);
  if (!is_called) WEIR_LOG_WARN("the error handler of a file cannot be called, since it was not made in C: {}", code);
}

}  // namespace

void remember_handler(MPI_Errhandler handler, MPI_File_errhandler_function* function) {
  const std::lock_guard lock(known().mutex);
  known().functions[handler] = function;
}

void keep_handler(MPI_Errhandler handler) {
  const std::lock_guard lock(known().mutex);
  known().kept.insert(handler);
}

bool is_kept_handler(MPI_Errhandler handler) {
  const std::lock_guard lock(known().mutex);
  return known().kept.contains(handler);
}

void forget_handler(MPI_Errhandler handler) {
  const std::lock_guard lock(known().mutex);
  known().functions.erase(handler);
}

MPI_Errhandler default_handler() {
  MPI_Errhandler handler = MPI_ERRORS_RETURN;
  if (is_mpi_running()) WEIR_REAL(MPI_File_get_errhandler)(MPI_FILE_NULL, &handler);
  return handler;
}

int handle_error(const Outcome& outcome, MPI_Errhandler handler, MPI_File file) {
  if (outcome.is_ok()) return MPI_SUCCESS;
  WEIR_LOG_DEBUG("{}", outcome.message());
  return handle_code(error_code(outcome), handler, file);
}

int handle_code(int code, MPI_Errhandler handler, MPI_File file) {
  if (code == MPI_SUCCESS || handler == MPI_ERRORS_RETURN || handler == MPI_ERRHANDLER_NULL || !is_mpi_running()) {
    return code;
  }
  if (is_fatal(handler)) end_program(code);
  if (MPI_File_errhandler_function* const function = function_of(handler)) {
    int told = code;
    function(&file, &told);
  } else {
    call_unknown(handler, code);
  }
  return code;
}

}  // namespace weir::mpiio::internal
