#include <weir/mpiio/internal/real.h>

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

namespace weir::mpiio::internal {

void* next_symbol(const char* name) {
  void* symbol = ::dlsym(RTLD_NEXT, name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "weir: no %s behind the MPI-IO library: it was built for another MPI than the program\n",
                 name);
    std::abort();
  }
  return symbol;
}

}  // namespace weir::mpiio::internal
