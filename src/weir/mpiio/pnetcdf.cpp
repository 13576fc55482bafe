// Two functions of PnetCDF, which looks at files behind the back of MPI-IO.
//
// Before it opens a file, PnetCDF reads the first bytes with open(2), from the name without `weir:`; before it makes
// one, it truncates a local file of that name, or refuses to go on if it is there.  The rest of PnetCDF is MPI-IO and
// needs nothing.  Its own calls of these functions go by symbol, so they arrive here, too, unless the program holds
// PnetCDF as a static library.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <unistd.h>

#include <weir/mpiio/internal/connection.h>
#include <weir/mpiio/internal/entry.h>

using namespace weir::mpiio::internal;  // NOLINT: this file defines functions of the global namespace only

namespace {

using weir::ErrorCode;

// Numbers of pnetcdf.h, which need not be here when this is built.
constexpr int kNoError = 0;
constexpr int kExists = -35;
constexpr int kNoNetcdf = -51;
constexpr int kFileError = -204;
constexpr int kNotFound = -220;
constexpr int kNoClobber = 0x4;
constexpr int kUnknownFormat = -1;
constexpr int kNetcdf4 = 3;

constexpr std::string_view kHdf5Signature = "\211HDF\r\n\032\n";
constexpr std::string_view kCdfSignature = "CDF";

// PnetCDF's own function.  Not after this library in the order of search if a module of an interpreter brought it.
template <typename Function>
Function* pnetcdfs_own(const char* name) {
  void* symbol = find_next_symbol(name);
  if (symbol == nullptr) {
    if (void* const library = ::dlopen("libpnetcdf.so.4", RTLD_LAZY | RTLD_NOLOAD)) symbol = ::dlsym(library, name);
  }
  if (symbol == nullptr) {
    std::fprintf(stderr, "weir: %s was called, but no library that is loaded has it\n", name);
    std::abort();
  }
  return reinterpret_cast<Function*>(symbol);
}

int code_of(const weir::Status& status) {
  if (status.code() == ErrorCode::kNotFound) return kNotFound;
  std::fprintf(stderr, "weir: %s\n", status.message().c_str());  // the code does not tell
  return kFileError;
}

weir::Result<std::string> first_bytes(const std::string& path) {
  std::array<std::byte, kHdf5Signature.size()> bytes{};
  WEIR_TRY(const weir::client::FileSystem fs, file_system());
  WEIR_TRY(const weir::client::File file, fs.open(path));
  WEIR_TRY(const weir::client::View view, file.linear());
  WEIR_RETURN_IF_ERROR(view.read(0, bytes));  // zeros beyond the end
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

int format_of(std::string_view bytes) {
  if (bytes == kHdf5Signature) return kNetcdf4;
  if (!bytes.starts_with(kCdfSignature)) return kUnknownFormat;
  const int version = bytes[kCdfSignature.size()];
  return version == 1 || version == 2 || version == 5 ? version : kUnknownFormat;
}

// Does to our file what PnetCDF would do to a local one.
int make_way(const char* name, const std::string& path, bool may_replace) {
  const char* const colon = std::strchr(name, ':');
  const char* const local = colon != nullptr ? colon + 1 : name;
  if (::access(local, F_OK) == 0) {
    std::fprintf(stderr, "weir: ncmpi_create %s: PnetCDF would truncate the local file %s; take another name\n", name,
                 local);
    return kFileError;
  }
  const auto fs = file_system();
  if (!fs.is_ok()) return code_of(fs.status());
  const weir::Status status = may_replace ? fs->remove(path) : fs->stat(path).status();
  if (status.code() == ErrorCode::kNotFound) return kNoError;
  if (!status.is_ok()) return code_of(status);
  return may_replace ? kNoError : kExists;
}

}  // namespace

WEIR_EXPORT int ncmpi_inq_file_format(const char* name, int* format) {
  const auto path = path_of(name);
  if (!path) return pnetcdfs_own<int(const char*, int*)>("ncmpi_inq_file_format")(name, format);
  if (format == nullptr) return kNoError;
  *format = kUnknownFormat;
  const auto bytes = first_bytes(*path);
  if (!bytes.is_ok()) return code_of(bytes.status());
  *format = format_of(*bytes);
  return *format == kUnknownFormat ? kNoNetcdf : kNoError;
}

WEIR_EXPORT int ncmpi_create(MPI_Comm comm, const char* name, int mode, MPI_Info info, int* id) {
  if (const auto path = path_of(name)) {
    int rank = 0;
    int code = kNoError;
    PMPI_Comm_rank(comm, &rank);
    if (rank == 0) code = make_way(name, *path, (mode & kNoClobber) == 0);
    PMPI_Bcast(&code, 1, MPI_INT, 0, comm);
    if (code != kNoError) return code;
  }
  return pnetcdfs_own<int(MPI_Comm, const char*, int, MPI_Info, int*)>("ncmpi_create")(comm, name, mode, info, id);
}
