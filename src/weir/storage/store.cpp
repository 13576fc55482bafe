#include <weir/storage/store.h>

#include <weir/storage/shared_memory.h>

namespace weir::storage {

Result<std::optional<SharedMemory>> Store::share(SubfileId id, bool for_writing) {
  (void)id, (void)for_writing;
  return std::optional<SharedMemory>{};
}

}  // namespace weir::storage
