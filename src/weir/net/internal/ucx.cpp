#include <weir/net/internal/ucx.h>

#include <dlfcn.h>

#include <weir/base/text.h>

namespace weir::net::internal {

namespace {

struct Loaded {
  Ucx calls;
  Status status;
};

Loaded load() {
  constexpr const char* kLibrary = "libucp.so.0";
  Loaded loaded;
  // For as long as the process lives: its code stays in front of others'.
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    loaded.status = {ErrorCode::kUnavailable, concat("UCX, which carries messages between hosts, cannot be loaded: ",
                                                     ::dlerror(), "; install it (Debian: libucx0)")};
    return loaded;
  }
  const auto find = [&](const char* name, auto& call) {
    call = reinterpret_cast<std::decay_t<decltype(call)>>(::dlsym(library, name));
    if (call == nullptr && loaded.status.is_ok()) {
      loaded.status = {ErrorCode::kUnavailable, concat("UCX (", kLibrary, ") has no ", name, ": it is too old")};
    }
  };
#define WEIR_UCX_FIND(name) find(#name, loaded.calls.name);
  WEIR_UCX_CALLS(WEIR_UCX_FIND)
#undef WEIR_UCX_FIND
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

Status load_ucx() { return loaded().status; }

const Ucx& ucx_calls() noexcept { return loaded().calls; }

}  // namespace weir::net::internal
