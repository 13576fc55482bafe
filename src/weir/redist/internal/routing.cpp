#include <weir/redist/internal/routing.h>

#include <algorithm>
#include <numeric>

#include <weir/base/text.h>
#include <weir/transfer/packing.h>

namespace weir::redist::internal {

namespace {

using layout::Element;
using layout::Mapping;
using layout::Partition;
using transfer::End;
using transfer::Packing;

// Block sizes that do not fit in two dimensions multiply: allow more families than an interactive question would.
constexpr layout::Budget kBudget{.runs = std::size_t{1} << 20, .steps = std::size_t{1} << 24};

Result<Mapping> mapping_between(const Partition& from, const Element& source, const Element& target) {
  const layout::Window window{.file = {from.disp(), from.disp() + from.period()}, .a = {}, .b = {}};
  return layout::intersect(source, target, window, kBudget);
}

PairMessage message_of(int peer, const Mapping& mapping, End end) {
  Packing packing = Packing::create(mapping, end);
  const bool is_send = end == End::kA;
  const auto& here = is_send ? packing.a_direct : packing.b_direct;
  const auto& there = is_send ? packing.b_direct : packing.a_direct;
  return {peer, packing.bytes, std::move(packing.plan), here, there.has_value()};
}

Result<LocalCopy> local_copy(const Mapping& mapping, Offset source_bytes) {
  WEIR_TRY(transfer::Plan plan, transfer::Plan::copy(mapping));
  return LocalCopy{std::move(plan), mapping.bytes(), {0, source_bytes}};
}

Result<std::vector<PairMessage>> receives_of(const Partition& from, const Partition& to, int element, int rank) {
  std::vector<PairMessage> messages;
  if (element < 0) return messages;
  WEIR_TRY(const Element target, to.element(element));
  const auto sources = static_cast<int>(from.element_count());
  for (int i = 0; i < sources && !target.is_empty(); ++i) {
    if (i == rank) continue;
    WEIR_TRY(const Element source, from.element(i));
    WEIR_TRY(const Mapping mapping, mapping_between(from, source, target));
    if (!mapping.is_empty()) messages.push_back(message_of(i, mapping, End::kB));
  }
  return messages;
}

}  // namespace

Result<std::vector<Share>> shares_of(const Partition& from, const Partition& to, int rank) {
  std::vector<Share> shares;
  if (rank >= from.element_count()) return shares;
  WEIR_TRY(const Element source, from.element(rank));
  const auto targets = static_cast<int>(to.element_count());
  for (int i = 0; i < targets && !source.is_empty(); ++i) {
    WEIR_TRY(const Element target, to.element(i));
    WEIR_TRY(Mapping mapping, mapping_between(from, source, target));
    if (!mapping.is_empty()) shares.push_back({i, std::move(mapping)});
  }
  return shares;
}

Labels make_labels(std::vector<int> rank_of, int ranks) {
  Labels labels{std::move(rank_of), std::vector<int>(static_cast<std::size_t>(ranks), -1)};
  for (std::size_t i = 0; i < labels.rank_of.size(); ++i) {
    labels.element_of[static_cast<std::size_t>(labels.rank_of[i])] = static_cast<int>(i);
  }
  return labels;
}

Labels same_labels(int elements, int ranks) {
  std::vector<int> rank_of(static_cast<std::size_t>(elements));
  std::iota(rank_of.begin(), rank_of.end(), 0);
  return make_labels(std::move(rank_of), ranks);
}

Result<Traffic> route(const Partition& from, const Partition& to, std::vector<Share> shares, const Labels& labels,
                      int rank, int ranks) {
  Traffic traffic;
  for (const Share& share : shares) {
    const int peer = labels.rank_of[static_cast<std::size_t>(share.element)];
    if (peer == rank) {
      WEIR_TRY(const Element source, from.element(rank));
      WEIR_TRY(traffic.local, local_copy(share.mapping, source.size()));
    } else {
      traffic.sends.push_back(message_of(peer, share.mapping, End::kA));
    }
  }
  WEIR_TRY(traffic.receives, receives_of(from, to, labels.element_of[static_cast<std::size_t>(rank)], rank));
  const auto after = [rank, ranks](const PairMessage& message) { return (message.peer - rank + ranks) % ranks; };
  std::sort(traffic.sends.begin(), traffic.sends.end(),
            [&](const PairMessage& x, const PairMessage& y) { return after(x) < after(y); });
  std::sort(traffic.receives.begin(), traffic.receives.end(),
            [&](const PairMessage& x, const PairMessage& y) { return after(x) > after(y); });
  return traffic;
}

}  // namespace weir::redist::internal
