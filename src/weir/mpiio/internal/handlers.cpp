#include <weir/mpiio/internal/handlers.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include <weir/log/log.h>
#include <weir/mpiio/internal/errors.h>
#include <weir/mpiio/internal/real.h>
#include <weir/mpiio/internal/running.h>
#include <weir/mpiio/internal/trace.h>

namespace weir::mpiio::internal {

namespace {

// One of both.
struct Function {
  MPI_File_errhandler_function* c = nullptr;
  FortranFileHandler* fortran = nullptr;
};

struct Known {
  std::mutex mutex;
  std::map<MPI_Errhandler, Function> functions;
  std::set<MPI_Errhandler> kept;
};

Known& known() {
  static auto* const all = new Known;  // never destroyed: errors may come while the program ends
  return *all;
}

std::optional<Function> function_of(MPI_Errhandler handler) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().functions.find(handler);
  if (found == known().functions.end()) return std::nullopt;
  return found->second;
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
  trace::finish();
  PMPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

}  // namespace

void remember_handler(MPI_Errhandler handler, MPI_File_errhandler_function* function) {
  const std::lock_guard lock(known().mutex);
  known().functions[handler] = {.c = function};
}

void remember_fortran_handler(MPI_Errhandler handler, FortranFileHandler* function) {
  const std::lock_guard lock(known().mutex);
  known().functions[handler] = {.fortran = function};
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

int handle_error(const Status& status, MPI_Errhandler handler, MPI_File file) {
  if (status.is_ok()) return MPI_SUCCESS;
  WEIR_LOG_DEBUG("{}", status.message());
  return handle_code(error_code(status), handler, file);
}

int handle_code(int code, MPI_Errhandler handler, MPI_File file) {
  if (code == MPI_SUCCESS || handler == MPI_ERRORS_RETURN || handler == MPI_ERRHANDLER_NULL || !is_mpi_running()) {
    return code;
  }
  if (is_fatal(handler)) end_program(code);
  const std::optional<Function> function = function_of(handler);
  if (!function) {
    WEIR_LOG_WARN("the error handler of a file was made before this library was loaded, and cannot be called: {}",
                  code);
  } else if (function->fortran != nullptr) {
    MPI_Fint number = MPI_File_c2f(file);
    MPI_Fint told = code;
    function->fortran(&number, &told);
    code = told;
  } else {
    int told = code;
    function->c(&file, &told);
    code = told;
  }
  return code;
}

}  // namespace weir::mpiio::internal
