#include <weir/storage/store.h>

#include <weir/storage/label.h>
#include <weir/storage/shared_memory.h>

namespace weir::storage {

Result<std::optional<SharedMemory>> Store::share(SubfileId id, bool for_writing, Offset expected_bytes, Peers peers) {
  (void)id, (void)for_writing, (void)expected_bytes, (void)peers;
  return std::optional<SharedMemory>{};
}

Label Store::label() const { return {}; }
Status Store::set_label(const Label& label) {
  (void)label;
  return Status::ok();
}

}  // namespace weir::storage
