#include <weir/pario/internal/placement.h>

#include <map>
#include <numeric>

namespace weir::pario::internal {

namespace {

using Targets = std::vector<std::uint32_t>;

class Placer {
 public:
  Placer(std::span<const std::string> target_hosts, std::uint32_t start)
      : start_(start), all_(target_hosts.size()), ranks_(target_hosts.size()) {
    std::iota(all_.begin(), all_.end(), 0U);
    for (const std::uint32_t target : all_) {
      if (!target_hosts[target].empty()) by_host_[target_hosts[target]].push_back(target);
    }
  }

  [[nodiscard]] const Targets* on_host(const std::string& host) const {
    const auto found = by_host_.find(host);
    return found == by_host_.end() ? nullptr : &found->second;
  }
  [[nodiscard]] const Targets& all() const { return all_; }

  std::uint32_t take_least_used(const Targets& candidates) {
    std::uint32_t best = candidates[start_ % candidates.size()];
    for (std::size_t i = 1; i < candidates.size(); ++i) {
      const std::uint32_t next = candidates[(start_ + i) % candidates.size()];
      if (ranks_[next] < ranks_[best]) best = next;
    }
    ++ranks_[best];
    return best;
  }

 private:
  std::size_t start_;
  Targets all_;
  std::map<std::string, Targets, std::less<>> by_host_;
  std::vector<std::size_t> ranks_;  // by target: how many it has subfiles of
};

}  // namespace

Placement place_at_ranks(std::span<const std::string> rank_hosts, std::span<const std::string> target_hosts,
                         std::size_t subfiles, std::uint32_t start) {
  Placer placer(target_hosts, start);
  Placement placement;
  placement.targets.resize(subfiles);
  // Those that have no choice first: the others then make up for what is uneven.
  std::vector<std::size_t> elsewhere;
  for (std::size_t rank = 0; rank < rank_hosts.size(); ++rank) {
    const Targets* const here = placer.on_host(rank_hosts[rank]);
    if (here == nullptr) {
      elsewhere.push_back(rank);
      continue;
    }
    placement.targets[rank] = placer.take_least_used(*here);
    ++placement.at_rank;
  }
  for (const std::size_t rank : elsewhere) placement.targets[rank] = placer.take_least_used(placer.all());
  for (std::size_t i = rank_hosts.size(); i < subfiles; ++i) {
    placement.targets[i] = static_cast<std::uint32_t>((start + i - rank_hosts.size()) % target_hosts.size());
  }
  return placement;
}

}  // namespace weir::pario::internal
