#include <weir/net/internal/ucx.h>

#include <weir/net/internal/dynamic_library.h>

namespace weir::net::internal {

namespace {

struct Loaded {
  Ucx calls;
  Status status;
};

Loaded load_calls() {
  DynamicLibrary library("libucp.so.0", "carries messages over RDMA fabrics", "libucx0");
  Loaded loaded;
#define WEIR_UCX_FIND(name) library.find(#name, loaded.calls.name);
  WEIR_UCX_CALLS(WEIR_UCX_FIND)
#undef WEIR_UCX_FIND
  loaded.status = library.status();
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load_calls();
  return once;
}

}  // namespace

Status load_ucx() { return loaded().status; }

const Ucx& ucx_calls() noexcept { return loaded().calls; }

}  // namespace weir::net::internal
