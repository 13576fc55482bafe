#include <weir/scalapack/internal/blacs.h>

#include <dlfcn.h>

#include <weir/base/text.h>

namespace weir::scalapack::internal {

namespace {

constexpr int kDefaultSystemContext = 0;     // BLACS_GET: what it is by default
constexpr int kSystemContextOfContext = 10;  // BLACS_GET: what a context was made from

// A ScaLAPACK that a plug-in loaded for itself is not visible to others; its user can name it.
void* named_library(const runtime::Settings& settings) {
  static void* const library = [&settings] {
    const std::string path = settings.get("WEIR_SCALAPACK_LIBRARY");
    return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  }();
  return library;
}

void* find(void* where, const char* name, const runtime::Settings& settings) {
  if (void* symbol = dlsym(where, name); symbol != nullptr) return symbol;
  void* const library = named_library(settings);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

}  // namespace

Result<Blacs> Blacs::find(const runtime::Settings& settings) {
  void* const grid_info = internal::find(RTLD_DEFAULT, "blacs_gridinfo_", settings);
  void* const get = internal::find(RTLD_DEFAULT, "blacs_get_", settings);
  if (grid_info != nullptr && get != nullptr) {
    return Blacs(reinterpret_cast<GridInfo*>(grid_info), reinterpret_cast<Get*>(get));
  }
  return invalid_argument(
      "this program shows no BLACS (blacs_gridinfo_, blacs_get_): link ScaLAPACK after libweir_scalapack, or name the "
      "library "
      "that holds it in WEIR_SCALAPACK_LIBRARY");
}

GridPosition Blacs::position(int context) const {
  GridPosition position;
  grid_info_(&context, &position.rows, &position.columns, &position.my_row, &position.my_column);
  const bool is_inside = position.my_row >= 0 && position.my_row < position.rows && position.my_column >= 0 &&
                         position.my_column < position.columns;
  return is_inside ? position : GridPosition{};
}

MPI_Comm Blacs::communicator(int context) const {
  int handle = 0;
  get_(&context, &kSystemContextOfContext, &handle);
  return MPI_Comm_f2c(handle);
}

MPI_Comm Blacs::everyone() const {
  const int none = 0;
  int handle = 0;
  get_(&none, &kDefaultSystemContext, &handle);
  return MPI_Comm_f2c(handle);
}

void* find_real(const std::string& name, const runtime::Settings& settings) {
  return find(RTLD_NEXT, name.c_str(), settings);
}

}  // namespace weir::scalapack::internal
