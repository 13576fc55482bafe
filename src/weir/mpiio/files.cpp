// All functions of files that neither read nor write, and those of error handlers and representations.

#include <cstring>

#include <weir/mpiio/internal/connection.h>
#include <weir/mpiio/internal/entry.h>
#include <weir/mpiio/internal/errors.h>

using namespace weir::mpiio::internal;  // NOLINT: this file defines functions of the global namespace only

// ---------------------------------------------------------------- opening and closing

WEIR_EXPORT int MPI_File_open(MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File* fh) {
  const auto path = path_of(name);
  if (!path) {
    const int code = WEIR_REAL(MPI_File_open)(comm, name, amode, info, fh);
    if (code == MPI_SUCCESS) reopened(*fh);
    return code;
  }
  *fh = MPI_FILE_NULL;
  const Status status = guarded("MPI_File_open", [&]() -> Status {
    const trace::CallTimer timer;
    std::shared_ptr<File> file;
    WEIR_RETURN_IF_ERROR(File::open(comm, *path, amode, info, file));
    *fh = add_file(std::move(file));
    return Status::ok();
  });
  if (!status.is_ok()) trace::failed(*path, "MPI_File_open", status.message());
  return handle_error(status, default_handler(), MPI_FILE_NULL);
}
WEIR_SECOND_NAME(int, MPI_File_open, (MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File* fh))

WEIR_EXPORT int MPI_File_close(MPI_File* fh) {
  return dispatch(
      "MPI_File_close", *fh,
      [&](File& file) {
        drop_file(*fh);  // the caller of this still holds it
        *fh = MPI_FILE_NULL;
        return file.close();
      },
      [&] { return WEIR_REAL(MPI_File_close)(fh); });
}
WEIR_SECOND_NAME(int, MPI_File_close, (MPI_File * fh))

WEIR_EXPORT int MPI_File_delete(const char* name, MPI_Info info) {
  const auto path = path_of(name);
  if (!path) return WEIR_REAL(MPI_File_delete)(name, info);
  const Status status = guarded("MPI_File_delete", [&] { return File::remove(*path); });
  // Programs delete what may be left of an earlier run: that nothing was is no failure.
  const bool is_failure = !status.is_ok() && class_of(status) != MPI_ERR_NO_SUCH_FILE;
  if (is_failure) trace::failed(*path, "MPI_File_delete", status.message());
  return handle_error(status, default_handler(), MPI_FILE_NULL);
}
WEIR_SECOND_NAME(int, MPI_File_delete, (const char* name, MPI_Info info))

// ---------------------------------------------------------------- the file as a whole

WEIR_FILE_FUNCTION(MPI_File_set_size, (MPI_File fh, MPI_Offset size), (fh, size), return file.set_size(size);)
WEIR_FILE_FUNCTION(MPI_File_preallocate, (MPI_File fh, MPI_Offset size), (fh, size), return file.preallocate(size);)
WEIR_FILE_FUNCTION(MPI_File_get_size, (MPI_File fh, MPI_Offset* size), (fh, size), weir::Offset bytes = 0;
                   WEIR_RETURN_IF_ERROR(file.get_size(bytes)); *size = bytes; return Status::ok();)
WEIR_FILE_FUNCTION(MPI_File_get_group, (MPI_File fh, MPI_Group* group), (fh, group), return file.get_group(group);)
WEIR_FILE_FUNCTION(MPI_File_get_amode, (MPI_File fh, int* amode), (fh, amode), *amode = file.amode();
                   return Status::ok();)
WEIR_FILE_FUNCTION(MPI_File_set_info, (MPI_File fh, MPI_Info info), (fh, info), return file.set_info(info);)
WEIR_FILE_FUNCTION(MPI_File_get_info, (MPI_File fh, MPI_Info* info), (fh, info), return file.get_info(info);)
WEIR_FILE_FUNCTION(MPI_File_sync, (MPI_File fh), (fh), return file.sync();)
WEIR_FILE_FUNCTION(MPI_File_set_atomicity, (MPI_File fh, int flag), (fh, flag), return file.set_atomicity(flag != 0);)
WEIR_FILE_FUNCTION(MPI_File_get_atomicity, (MPI_File fh, int* flag), (fh, flag), *flag = file.is_atomic() ? 1 : 0;
                   return Status::ok();)

// ---------------------------------------------------------------- views and pointers

WEIR_FILE_FUNCTION(MPI_File_set_view,
                   (MPI_File fh, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char* datarep,
                    MPI_Info info),
                   (fh, disp, etype, filetype, datarep, info),
                   return file.set_view({disp, etype, filetype, datarep != nullptr ? datarep : ""}, info);)
WEIR_FILE_FUNCTION(MPI_File_get_view,
                   (MPI_File fh, MPI_Offset* disp, MPI_Datatype* etype, MPI_Datatype* filetype, char* datarep),
                   (fh, disp, etype, filetype, datarep), const auto view = file.types();
                   *disp = view->disp; *etype = view->etype.give(); *filetype = view->filetype.give();
                   std::strcpy(datarep, view->representation_name.c_str());  // NOLINT: at most MPI_MAX_DATAREP_STRING
                   return Status::ok();)
WEIR_FILE_FUNCTION(MPI_File_get_type_extent, (MPI_File fh, MPI_Datatype type, MPI_Aint* extent), (fh, type, extent),
                   weir::Offset bytes = 0;
                   WEIR_RETURN_IF_ERROR(file.get_type_extent(type, bytes)); *extent = bytes; return Status::ok();)
WEIR_FILE_FUNCTION(MPI_File_get_byte_offset, (MPI_File fh, MPI_Offset offset, MPI_Offset* byte), (fh, offset, byte),
                   weir::Offset found = 0;
                   WEIR_RETURN_IF_ERROR(file.get_byte_offset(offset, found)); *byte = found; return Status::ok();)
WEIR_FILE_FUNCTION(MPI_File_seek, (MPI_File fh, MPI_Offset offset, int whence), (fh, offset, whence),
                   return file.seek(offset, whence);)
WEIR_FILE_FUNCTION(MPI_File_seek_shared, (MPI_File fh, MPI_Offset offset, int whence), (fh, offset, whence),
                   return file.seek_shared(offset, whence);)
WEIR_FILE_FUNCTION(MPI_File_get_position, (MPI_File fh, MPI_Offset* offset), (fh, offset), weir::Offset position = 0;
                   WEIR_RETURN_IF_ERROR(file.get_position(position)); *offset = position; return Status::ok();)
WEIR_FILE_FUNCTION(MPI_File_get_position_shared, (MPI_File fh, MPI_Offset* offset), (fh, offset),
                   weir::Offset position = 0;
                   WEIR_RETURN_IF_ERROR(file.get_position_shared(position)); *offset = position; return Status::ok();)

#if MPI_VERSION >= 4
WEIR_FILE_FUNCTION(MPI_File_get_type_extent_c, (MPI_File fh, MPI_Datatype type, MPI_Count* extent), (fh, type, extent),
                   weir::Offset bytes = 0;
                   WEIR_RETURN_IF_ERROR(file.get_type_extent(type, bytes)); *extent = bytes; return Status::ok();)
#endif

// ---------------------------------------------------------------- handles in Fortran

WEIR_EXPORT MPI_Fint MPI_File_c2f(MPI_File fh) {
  if (const auto file = find_file(fh)) return number_of(*file);
  return WEIR_REAL(MPI_File_c2f)(fh);
}
WEIR_SECOND_NAME(MPI_Fint, MPI_File_c2f, (MPI_File fh))

WEIR_EXPORT MPI_File MPI_File_f2c(MPI_Fint number) {
  return is_our_number(number) ? handle_of(number) : WEIR_REAL(MPI_File_f2c)(number);
}
WEIR_SECOND_NAME(MPI_File, MPI_File_f2c, (MPI_Fint number))

// ---------------------------------------------------------------- errors

WEIR_EXPORT int MPI_File_create_errhandler(MPI_File_errhandler_function* function, MPI_Errhandler* handler) {
  const int code = WEIR_REAL(MPI_File_create_errhandler)(function, handler);
  if (code == MPI_SUCCESS) remember_handler(*handler, function);
  return code;
}
WEIR_SECOND_NAME(int, MPI_File_create_errhandler, (MPI_File_errhandler_function * function, MPI_Errhandler* handler))

// Fortran programs' handlers: Open MPI makes them without MPI_File_create_errhandler, MPICH by it.  All compilers'
// names of the function, and that of `use mpi_f08`, have the same arguments; `error` may be absent there.
#define WEIR_FORTRAN_CREATE(name)                                                                  \
  WEIR_EXPORT void name(FortranFileHandler* function, MPI_Fint* handler, MPI_Fint* error) {        \
    static const auto real =                                                                       \
        reinterpret_cast<void (*)(FortranFileHandler*, MPI_Fint*, MPI_Fint*)>(next_symbol(#name)); \
    MPI_Fint code = MPI_SUCCESS;                                                                   \
    real(function, handler, &code);                                                                \
    if (code == MPI_SUCCESS) remember_fortran_handler(MPI_Errhandler_f2c(*handler), function);     \
    if (error != nullptr) *error = code;                                                           \
  }
WEIR_FORTRAN_CREATE(mpi_file_create_errhandler)
WEIR_FORTRAN_CREATE(mpi_file_create_errhandler_)
WEIR_FORTRAN_CREATE(mpi_file_create_errhandler__)
WEIR_FORTRAN_CREATE(mpi_file_create_errhandler_f08_)

WEIR_EXPORT int MPI_Errhandler_free(MPI_Errhandler* handler) {
  if (is_kept_handler(*handler)) {
    *handler = MPI_ERRHANDLER_NULL;
    return MPI_SUCCESS;
  }
  if (*handler != default_handler()) forget_handler(*handler);  // new files still get it
  return WEIR_REAL(MPI_Errhandler_free)(handler);
}
WEIR_SECOND_NAME(int, MPI_Errhandler_free, (MPI_Errhandler * handler))

WEIR_FILE_FUNCTION(
    MPI_File_set_errhandler, (MPI_File fh, MPI_Errhandler handler), (fh, handler),
    if (handler == MPI_ERRHANDLER_NULL) {
      return fail(MPI_ERR_ARG, call, " ", file.path(), ": the handler is MPI_ERRHANDLER_NULL");
    } file.set_error_handler(handler);
    return Status::ok();)
WEIR_FILE_FUNCTION(MPI_File_get_errhandler, (MPI_File fh, MPI_Errhandler* handler), (fh, handler),
                   *handler = file.error_handler();
                   return Status::ok();)

WEIR_EXPORT int MPI_File_call_errhandler(MPI_File fh, int code) {
  if (const auto file = find_file(fh)) {
    handle_code(code, file->error_handler(), fh);
    return MPI_SUCCESS;
  }
  return WEIR_REAL(MPI_File_call_errhandler)(fh, code);
}
WEIR_SECOND_NAME(int, MPI_File_call_errhandler, (MPI_File fh, int code))

WEIR_EXPORT int MPI_Error_string(int code, char* text, int* length) {
  const auto message = message_of(code);
  if (!message) return WEIR_REAL(MPI_Error_string)(code, text, length);
  const std::size_t taken = message->copy(text, MPI_MAX_ERROR_STRING - 1);
  text[taken] = '\0';
  *length = static_cast<int>(taken);
  return MPI_SUCCESS;
}
WEIR_SECOND_NAME(int, MPI_Error_string, (int code, char* text, int* length))

// ---------------------------------------------------------------- representations

namespace {

// The MPI's own files get to know it too, if they can use it.
template <typename Function, typename Real>
int register_datarep(const char* call, const char* name, Function* read, Function* write,
                     MPI_Datarep_extent_function* extent, void* extra, Real real) {
  const Status status = guarded(call, [&] {
    return register_representation(name != nullptr ? name : "", {read, write, extent, extra});
  });
  if (status.is_ok()) real(name, read, write, extent, extra);
  return handle_error(status, default_handler(), MPI_FILE_NULL);
}

}  // namespace

WEIR_EXPORT int MPI_Register_datarep(const char* name, MPI_Datarep_conversion_function* read,
                                     MPI_Datarep_conversion_function* write, MPI_Datarep_extent_function* extent,
                                     void* extra) {
  return register_datarep("MPI_Register_datarep", name, read, write, extent, extra, WEIR_REAL(MPI_Register_datarep));
}
WEIR_SECOND_NAME(int, MPI_Register_datarep,
                 (const char* name, MPI_Datarep_conversion_function* read, MPI_Datarep_conversion_function* write,
                  MPI_Datarep_extent_function* extent, void* extra))

#if MPI_VERSION >= 4
WEIR_EXPORT int MPI_Register_datarep_c(const char* name, MPI_Datarep_conversion_function_c* read,
                                       MPI_Datarep_conversion_function_c* write, MPI_Datarep_extent_function* extent,
                                       void* extra) {
  return register_datarep("MPI_Register_datarep_c", name, read, write, extent, extra,
                          WEIR_REAL(MPI_Register_datarep_c));
}
WEIR_SECOND_NAME(int, MPI_Register_datarep_c,
                 (const char* name, MPI_Datarep_conversion_function_c* read, MPI_Datarep_conversion_function_c* write,
                  MPI_Datarep_extent_function* extent, void* extra))
#endif
