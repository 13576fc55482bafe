#include <weir/layout/pitfalls.h>

#include <utility>

#include <weir/layout/internal/construct.h>

namespace weir::layout {

Result<Offset> Pitfalls::bytes() const {
  Offset bytes = elem;
  for (const Level& level : levels) {
    WEIR_TRY(bytes, checked_mul(bytes, level.extent));
  }
  return bytes;
}

FallsSet Pitfalls::evaluate(const std::vector<Offset>& coordinates) const {
  // From the innermost level outwards: `unit` is what the process holds of one index of the level at hand.
  FallsSet unit{Falls{.left = 0, .right = elem - 1, .inner = {}}};
  Offset unit_bytes = elem;
  for (std::size_t d = levels.size(); d-- > 0;) {
    const internal::Share share = internal::deal(levels[d], coordinates[d]);
    if (levels[d].unit != 0) unit_bytes = levels[d].unit;
    FallsSet clipped;
    if (share.clipped > 0) {
      clipped = internal::repeat(unit, unit_bytes, share.clipped);
      internal::shift(clipped, (share.first + share.full_count * share.stride) * unit_bytes);
    }
    FallsSet owned;
    if (share.full_count > 0) {
      FallsSet block = internal::repeat(std::move(unit), unit_bytes, share.block);
      owned = internal::repeat(std::move(block), share.stride * unit_bytes, share.full_count);
      internal::shift(owned, share.first * unit_bytes);
    }
    internal::append(owned, std::move(clipped));
    if (owned.empty()) return {};
    unit = std::move(owned);
    unit_bytes *= levels[d].extent;
  }
  return unit;
}

}  // namespace weir::layout
