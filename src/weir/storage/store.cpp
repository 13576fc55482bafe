#include <weir/storage/store.h>

#include <array>

namespace weir::storage {

namespace op {

const char* name_of(const Any& operation) noexcept {
  static constexpr std::array kNames{"read",         "write",       "truncate",    "reserve",  "sync",        "remove",
                                     "info",         "keep_about",  "kept_about",  "list",     "list_abouts", "usage",
                                     "stored_bytes", "keep_fences", "kept_fences", "set_label"};
  static_assert(kNames.size() == std::variant_size_v<Any>);
  return kNames[operation.index()];
}

}  // namespace op

Status IoBatch::status() const {
  for (const Operation& operation : operations) {
    if (!operation.status.is_ok()) return operation.status;
  }
  return Status::ok();
}

}  // namespace weir::storage
