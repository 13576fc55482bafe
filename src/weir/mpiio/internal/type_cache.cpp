#include <weir/mpiio/internal/type_cache.h>

#include <mutex>

#include <weir/mpiio/internal/datatype.h>

namespace weir::mpiio::internal {

namespace {

// What is known of a type: its map, and the last buffer of it that was used.
struct CachedType {
  Typemap map;
  MPI_Count count = -1;
  std::shared_ptr<const MemoryMap> memory;
};

int forget(MPI_Datatype, int, void* value, void*) {
  delete static_cast<CachedType*>(value);
  return MPI_SUCCESS;
}

// MPI_KEYVAL_INVALID if MPI gives none.
int keyval() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &made, nullptr);
    return made;
  }();
  return key;
}

Result<std::shared_ptr<const MemoryMap>> map_memory(MPI_Count count, const Typemap& type) {
  WEIR_TRY(MemoryMap made, memory_map(count, type));
  return std::make_shared<const MemoryMap>(std::move(made));
}

}  // namespace

Result<std::shared_ptr<const MemoryMap>> cached_memory_map(MPI_Count count, MPI_Datatype type) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  CachedType* known = nullptr;
  int is_known = 0;
  PMPI_Type_get_attr(type, keyval(), static_cast<void*>(&known), &is_known);
  if (is_known == 0) {
    WEIR_TRY(Typemap map, decode(type, LeafSize::kNative));
    auto fresh = std::make_unique<CachedType>(CachedType{std::move(map), -1, nullptr});
    if (PMPI_Type_set_attr(type, keyval(), fresh.get()) != MPI_SUCCESS) return map_memory(count, fresh->map);
    known = fresh.release();
  }
  if (known->count != count) {
    WEIR_TRY(known->memory, map_memory(count, known->map));
    known->count = count;
  }
  return known->memory;
}

}  // namespace weir::mpiio::internal
