#include <weir/storage/store.h>

#include <random>

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

std::uint64_t random_id() {
  std::random_device device;
  for (;;) {
    if (const std::uint64_t id = (std::uint64_t{device()} << 32) | device(); id != 0) return id;
  }
}

}  // namespace weir::storage
