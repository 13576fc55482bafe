#include <weir/redist/internal/relabel.h>

#include <algorithm>
#include <numeric>

namespace weir::redist::internal {

namespace {

constexpr int kNone = -1;

struct Assignment {
  std::vector<int> rank_of;    // per element
  std::vector<bool> is_taken;  // per rank

  void give(std::size_t element, int rank) {
    rank_of[element] = rank;
    is_taken[static_cast<std::size_t>(rank)] = true;
  }
};

void assign_largest_first(std::span<const Flow> flows, Assignment& assignment) {
  std::vector<Flow> sorted(flows.begin(), flows.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const Flow& x, const Flow& y) {
    if (x.bytes != y.bytes) return x.bytes > y.bytes;
    return (x.from == x.to) > (y.from == y.to);
  });
  for (const Flow& flow : sorted) {
    const auto element = static_cast<std::size_t>(flow.to);
    if (assignment.rank_of[element] != kNone || assignment.is_taken[static_cast<std::size_t>(flow.from)]) continue;
    assignment.give(element, flow.from);
  }
}

// Elements that nobody has bytes of: the rank of their number, or the lowest free one.
void assign_rest(Assignment& assignment) {
  for (std::size_t i = 0; i < assignment.rank_of.size(); ++i) {
    if (assignment.rank_of[i] == kNone && !assignment.is_taken[i]) assignment.give(i, static_cast<int>(i));
  }
  int free = 0;
  for (std::size_t i = 0; i < assignment.rank_of.size(); ++i) {
    if (assignment.rank_of[i] != kNone) continue;
    while (assignment.is_taken[static_cast<std::size_t>(free)]) ++free;
    assignment.give(i, free);
  }
}

}  // namespace

std::vector<int> relabel(std::span<const Flow> flows, int elements, int ranks) {
  Assignment assignment{std::vector<int>(static_cast<std::size_t>(elements), kNone),
                        std::vector<bool>(static_cast<std::size_t>(ranks), false)};
  assign_largest_first(flows, assignment);
  assign_rest(assignment);
  std::vector<int> same(static_cast<std::size_t>(elements));
  std::iota(same.begin(), same.end(), 0);
  return local_bytes(flows, assignment.rank_of) > local_bytes(flows, same) ? assignment.rank_of : same;
}

Offset local_bytes(std::span<const Flow> flows, const std::vector<int>& rank_of) {
  Offset bytes = 0;
  for (const Flow& flow : flows) {
    if (rank_of[static_cast<std::size_t>(flow.to)] == flow.from) bytes += flow.bytes;
  }
  return bytes;
}

}  // namespace weir::redist::internal
