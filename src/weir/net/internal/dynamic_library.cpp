#include <weir/net/internal/dynamic_library.h>

#include <dlfcn.h>

#include <weir/base/text.h>

namespace weir::net::internal {

DynamicLibrary::DynamicLibrary(const char* file, const char* purpose, const char* package)
    : file_(file), handle_(::dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
  if (handle_ != nullptr) return;
  status_ = {ErrorCode::kUnavailable, concat(file, ", which ", purpose, ", cannot be loaded: ", ::dlerror(),
                                             "; install it (Debian: ", package, ")")};
}

void* DynamicLibrary::symbol(const char* name) {
  if (handle_ == nullptr) return nullptr;
  void* const found = ::dlsym(handle_, name);
  if (found == nullptr && status_.is_ok()) {
    status_ = {ErrorCode::kUnavailable, concat(file_, " has no ", name, ": it is too old")};
  }
  return found;
}

}  // namespace weir::net::internal
