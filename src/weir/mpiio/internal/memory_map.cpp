#include <weir/mpiio/internal/memory_map.h>

#include <algorithm>
#include <utility>

namespace weir::mpiio::internal {

namespace {

using layout::Element;

MemoryMap map_of(const Typemap& items, Result<Element> element) {
  MemoryMap map;
  map.bytes = items.size;
  map.shift = items.origin;
  map.is_contiguous = items.is_contiguous();
  map.direct = element.status();
  if (element.is_ok()) map.element = *std::move(element);
  return map;
}

}  // namespace

Result<MemoryMap> memory_map(Offset count, const Typemap& type) {
  // Items side by side are a period, which serves any count; one item, and items that interleave or go backwards, are a
  // finite set.
  const bool is_periodic = count > 1 && type.size > 0 && type.extent >= type.true_extent;
  Typemap once = type;
  WEIR_TRY(Typemap items, repeat(std::move(once), count, type.extent));
  if (items.size == 0) return MemoryMap{};
  if (!items.shape.is_ok())
    return MemoryMap{.bytes = items.size, .is_contiguous = false, .element = {}, .direct = items.shape};
  if (is_periodic && !items.is_contiguous()) {
    return map_of(items, Element::create(type.falls, {.period = type.extent}));
  }
  return map_of(items, Element::create(items.falls, {}));
}

}  // namespace weir::mpiio::internal
