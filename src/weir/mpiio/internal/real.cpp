#include <weir/mpiio/internal/real.h>

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

namespace weir::mpiio::internal {

// A library that was loaded late is followed by what it needs itself, which is the MPI; others, as PnetCDF, the preloaded one finds.
void* find_next_symbol(const char* name) {
  if (void* const symbol = ::dlsym(RTLD_NEXT, name)) return symbol;
  using Next = void*(const char*);
  auto* const next = reinterpret_cast<Next*>(::dlsym(RTLD_DEFAULT, "weir_preload_next"));
  return next != nullptr ? next(name) : nullptr;
}

void* next_symbol(const char* name) {
  void* const symbol = find_next_symbol(name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "weir: no %s behind the MPI-IO library: it was built for another MPI than the program\n",
                 name);
    std::abort();
  }
  return symbol;
}

}  // namespace weir::mpiio::internal
