#include <weir/scalapack/internal/dealing.h>

#include <algorithm>
#include <cassert>

namespace weir::scalapack::internal {

Share share_of(const Dealing& dealing, Offset coordinate) {
  assert(dealing.block > 0 && coordinate >= 0 && coordinate < dealing.processes);
  if (dealing.extent == 0) return {};
  if (dealing.processes == 1) return {{{0, dealing.extent, 0, 1}}, dealing.extent, dealing.first};
  const Offset block = dealing.block;
  const Offset cycle = block * dealing.processes;
  const Offset mine = floor_mod(coordinate - dealing.source, dealing.processes) * block;  // start of the first block
  const Offset end = dealing.first + dealing.extent;
  Offset from =
      std::max<Offset>(0, floor_div(dealing.first - mine - block, cycle) + 1);  // blocks [from, to) are touched
  Offset to = ceil_div(end - mine, cycle);
  if (from >= to) return {};

  Share share;
  share.local_first = from * block + std::max<Offset>(0, dealing.first - (from * cycle + mine));
  const auto add = [&](Offset index, Offset count) {
    const Offset left = std::max(index * cycle + mine, dealing.first);
    const Offset right = std::min(index * cycle + mine + block, end);
    share.families.push_back({left - dealing.first, right - left, count > 1 ? cycle : 0, count});
    share.count += (right - left) * count;
  };
  if (from * cycle + mine < dealing.first) add(from++, 1);
  const bool is_last_cut = from < to && (to - 1) * cycle + mine + block > end;
  if (is_last_cut) --to;
  if (from < to) add(from, to - from);
  if (is_last_cut) add(to, 1);
  return share;
}

Result<layout::Element> element_of(const Share& share, Offset extent, Offset unit) {
  WEIR_TRY(const Offset bytes, checked_mul(extent, unit));
  layout::FallsSet set;
  for (const Family& family : share.families) {
    set.push_back(
        {family.left * unit, (family.left + family.length) * unit - 1, family.stride * unit, family.count, {}});
  }
  return layout::Element::create(std::move(set), {0, bytes});
}

}  // namespace weir::scalapack::internal
