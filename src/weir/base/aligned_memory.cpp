#include <weir/base/aligned_memory.h>

#include <sys/mman.h>

#include <new>

namespace weir {

AlignedMemory make_aligned_memory(std::size_t bytes) {
  const bool is_huge = bytes >= kHugePageBytes;
  AlignedMemory memory(static_cast<std::byte*>(std::aligned_alloc(is_huge ? kHugePageBytes : kPageBytes, bytes)));
  if (memory == nullptr) throw std::bad_alloc();
  if (is_huge) (void)::madvise(memory.get(), bytes, MADV_HUGEPAGE);  // refused: small pages do, too
  return memory;
}

}  // namespace weir
