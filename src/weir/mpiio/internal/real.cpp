#include <weir/mpiio/internal/real.h>

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

namespace weir::mpiio::internal {

namespace {

const void* library_of(const void* address) {
  Dl_info info;
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

}  // namespace

// A library that was loaded late is followed by what it needs itself, which is the MPI; others, as PnetCDF, the
// preloaded one finds.  So it does if this library was preloaded before it: its own functions would lead back here.
void* find_next_symbol(const char* name) {
  void* const symbol = ::dlsym(RTLD_NEXT, name);
  void* const next = ::dlsym(RTLD_DEFAULT, "weir_preload_next");
  if (next == nullptr || (symbol != nullptr && library_of(symbol) != library_of(next))) return symbol;
  return reinterpret_cast<void* (*)(const char*)>(next)(name);
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
