// libweir_preload.so: the one library that `weir run` and `weir env` preload, into every process, whatever it is.
//
// It defines each function that some libweir_mpiio_<mpi>.so defines, so that calls of them arrive here, also those of an MPI library that a process
// loads late (python3 imports mpi4py).  At the first call of MPI-IO it looks which MPI is in the process, loads the
// library that was built for it, and from then on jumps there.  In a process that has no MPI, or one that there is no
// library for, it jumps to the function that would have been called without it.
//
//   MPI_File_open ──> slot ──┬── nothing yet: resolve
//                            ├── libweir_mpiio_<mpi>.so, if this process has that MPI
//                            └── the next definition: the MPI's own
//
// Functions that programs without MPI-IO call, too (MPI_Wait), go to the next definition until the library is loaded.
//
// It uses nothing but the C library, and does nothing when it is loaded.  All arguments of all these functions are
// integers and pointers, six at most: calling conventions pass those in registers, and a function that takes six hands
// them on whatever they are.  No lock is held while libraries are loaded; two threads that resolve at once find the
// same.

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using Word = long;
using Function = Word (*)(Word, Word, Word, Word, Word, Word);

struct Known {
  const char* mpi;
  const char* soname;  // of the MPI library that libweir_mpiio_<mpi>.so was linked with
};
constexpr Known kMpis[] = {
#define WEIR_MPI(mpi, soname) {#mpi, soname},
#include "preload_mpis.inc"
#undef WEIR_MPI
};

// preload_symbols.inc has WEIR_SYMBOL(name, is_io) for each; is_io: it is of use only with the library.
enum Index : unsigned {
#define WEIR_SYMBOL(name, is_io) kIndex_##name,
#include "preload_symbols.inc"
#undef WEIR_SYMBOL
  kCount
};
struct Symbol {
  const char* name;
  bool is_io;
};
constexpr Symbol kSymbols[] = {
#define WEIR_SYMBOL(name, is_io) {#name, is_io},
#include "preload_symbols.inc"
#undef WEIR_SYMBOL
};

Function slots[kCount];
void* library;            // libweir_mpiio_<mpi>.so, once it is loaded
const char* aside_since;  // why it is not, once that is known

template <typename T>
T load(T& place) {
  return __atomic_load_n(&place, __ATOMIC_ACQUIRE);
}
template <typename T>
void store(T& place, T value) {
  __atomic_store_n(&place, value, __ATOMIC_RELEASE);
}

// ---- who defines what

const void* base_of(const void* address) {
  Dl_info info;
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

bool is_own(void* symbol) {
  if (symbol == nullptr) return true;
  const void* const base = base_of(symbol);
  if (base == base_of(&slots)) return true;
  Dl_info info;
  if (::dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return false;
  const char* const slash = std::strrchr(info.dli_fname, '/');
  return std::strncmp(slash != nullptr ? slash + 1 : info.dli_fname, "libweir_mpiio_", 14) == 0;
}

struct Search {
  char** names;
  unsigned count;
  unsigned room;
};

int collect(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (info->dlpi_name == nullptr || *info->dlpi_name == '\0') return 0;
  if (search.count == search.room) {
    const unsigned room = 2 * search.room + 64;
    void* const names = std::realloc(search.names, room * sizeof(char*));
    if (names == nullptr) return 1;
    search.names = static_cast<char**>(names);
    search.room = room;
  }
  char* const name = ::strdup(info->dlpi_name);
  if (name == nullptr) return 1;
  search.names[search.count++] = name;
  return 0;
}

// In any library of the process, also in those that were loaded for a module of an interpreter and that nobody else
// sees.
void* find_anywhere(const char* name) {
  Search search{};
  ::dl_iterate_phdr(collect, &search);
  void* found = nullptr;
  for (unsigned i = 0; i < search.count; ++i) {
    if (found == nullptr) {
      if (void* const handle = ::dlopen(search.names[i], RTLD_LAZY | RTLD_NOLOAD)) {
        found = ::dlsym(handle, name);
        if (is_own(found)) found = nullptr;
        ::dlclose(handle);
      }
    }
    std::free(search.names[i]);
  }
  std::free(search.names);
  return found;
}

void* find_next(const char* name) {
  void* const symbol = ::dlsym(RTLD_NEXT, name);
  return is_own(symbol) ? find_anywhere(name) : symbol;
}

Function next_or_abort(const char* name) {
  void* const symbol = find_next(name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "weir: %s was called, but no library that is loaded has it\n", name);
    std::abort();
  }
  return reinterpret_cast<Function>(symbol);
}

// ---- the library

bool is_loaded(const char* soname) {
  void* const handle = ::dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

// If there are several, the one whose functions are called.
const Known* find_mpi() {
  const Known* found = nullptr;
  for (const Known& one : kMpis) {
    if (!is_loaded(one.soname)) continue;
    if (found == nullptr) {
      found = &one;
      continue;
    }
    void* const handle = ::dlopen(one.soname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != nullptr && ::dlsym(handle, "PMPI_Init") == find_next("PMPI_Init")) found = &one;
    if (handle != nullptr) ::dlclose(handle);
  }
  return found;
}

// Beside this one.
void* open_library(const Known& mpi) {
  Dl_info self;
  if (::dladdr(&slots, &self) == 0 || self.dli_fname == nullptr) return nullptr;
  const char* const slash = std::strrchr(self.dli_fname, '/');
  const int folder = slash != nullptr ? static_cast<int>(slash + 1 - self.dli_fname) : 0;
  static char path[4096];  // threads write the same
  const int length = std::snprintf(path, sizeof path, "%.*slibweir_mpiio_%s.so", folder, self.dli_fname, mpi.mpi);
  if (length < 0 || length >= static_cast<int>(sizeof path)) return nullptr;
  return ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

void* load_library() {
  if (void* const known = load(library)) return known;
  if (load(aside_since) != nullptr) return nullptr;
  const Known* const mpi = find_mpi();
  if (mpi == nullptr) {
    store(aside_since, "there is no library of Weir for the MPI of this program");
    return nullptr;
  }
  void* const opened = open_library(*mpi);
  if (opened == nullptr) {
    const char* const error = ::dlerror();
    char* const copy = ::strdup(error != nullptr ? error : "the library of Weir cannot be loaded");
    store(aside_since, static_cast<const char*>(copy != nullptr ? copy : "out of memory"));
    return nullptr;
  }
  store(library, opened);
  for (unsigned i = 0; i < kCount; ++i) {
    if (void* const symbol = ::dlsym(opened, kSymbols[i].name)) store(slots[i], reinterpret_cast<Function>(symbol));
  }
  return opened;
}

// What MPI_File_open is where the library is not: files of Weir are told apart from those that are missing.
Word open_aside(Word comm, Word name, Word mode, Word info, Word file, Word) {
  const char* const text = reinterpret_cast<const char*>(name);  // NOLINT: a pointer, passed on as a word
  static bool is_told;
  if (text != nullptr && std::strncmp(text, "weir:", 5) == 0 &&
      !__atomic_exchange_n(&is_told, true, __ATOMIC_RELAXED)) {
    std::fprintf(stderr, "weir: MPI_File_open %s: %s; the name goes to the MPI itself\n", text, load(aside_since));
  }
  static Function real;
  if (load(real) == nullptr) store(real, next_or_abort("PMPI_File_open"));
  return load(real)(comm, name, mode, info, file, 0);
}

Function resolve(unsigned index) {
  const Symbol& symbol = kSymbols[index];
  void* const loaded = symbol.is_io ? load_library() : load(library);
  void* own = loaded != nullptr ? ::dlsym(loaded, symbol.name) : nullptr;
  if (is_own(own) && own != nullptr) {
    store(slots[index], reinterpret_cast<Function>(own));
    return load(slots[index]);
  }
  const bool is_open =
      std::strcmp(symbol.name, "MPI_File_open") == 0 || std::strcmp(symbol.name, "PMPI_File_open") == 0;
  const Function function = is_open && loaded == nullptr ? open_aside : next_or_abort(symbol.name);
  Function expected = nullptr;  // the library's own, if another thread has loaded it meanwhile, stays
  __atomic_compare_exchange_n(&slots[index], &expected, function, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return load(slots[index]);
}

}  // namespace

#define WEIR_EXPORT extern "C" __attribute__((visibility("default")))

/// For libweir_mpiio_<mpi>.so: the definition of `name` that programs would call without Weir; null if there is none.
WEIR_EXPORT void* weir_preload_next(const char* name) { return find_next(name); }

#define WEIR_SYMBOL(name, is_io)                                          \
  WEIR_EXPORT Word name(Word a, Word b, Word c, Word d, Word e, Word f) { \
    Function function = load(slots[kIndex_##name]);                       \
    if (function == nullptr) function = resolve(kIndex_##name);           \
    return function(a, b, c, d, e, f);                                    \
  }
#include "preload_symbols.inc"
