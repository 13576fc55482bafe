#include <weir/layout/internal/nest.h>

// From unordered families to ascending FALLS.
//
// Chains whose hulls do not overlap follow one another.  Chains that interleave are laid on a common grid of windows of
// the largest outermost step s: a chain of step s puts one block into each window of an interval of windows.  Where all
// chains that are active in an interval stay within their window, the interval becomes one FALLS of stride s around
// what one window holds, which is nested in turn.  If no grid origin keeps all blocks within windows, the chains are
// listed one by one.

#include <algorithm>
#include <tuple>

#include <weir/layout/internal/rewrite.h>

namespace weir::layout::internal {

namespace {

constexpr std::size_t kMostOrigins = 64;   // grid origins tried
constexpr std::size_t kMostChains = 4096;  // more interleaved chains than this are listed, not nested

using Chains = std::vector<Chain>;

Offset hull_length(const Chain& chain, std::size_t first_loop = 0) {
  Offset length = chain.length;
  for (std::size_t i = first_loop; i < chain.loops.size(); ++i)
    length += (chain.loops[i].count - 1) * chain.loops[i].step;
  return length;
}

Offset end(const Chain& chain) { return chain.at + hull_length(chain); }

// Loops by decreasing step, those that continue each other as one, contiguous ones gone.
void normalise(Chain& chain) {
  auto& loops = chain.loops;
  std::erase_if(loops, [](const Chain::Loop& loop) { return loop.count == 1; });
  std::sort(loops.begin(), loops.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  while (!loops.empty() && loops.back().step == chain.length) {
    chain.length *= loops.back().count;
    loops.pop_back();
  }
  for (std::size_t i = loops.size(); i-- > 1;) {
    if (loops[i - 1].step != loops[i].count * loops[i].step) continue;
    loops[i - 1] = {loops[i - 1].count * loops[i].count, loops[i].step};
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

auto loop_key(const Chain& chain) {
  std::vector<std::pair<Offset, Offset>> key;
  for (const auto& loop : chain.loops) key.emplace_back(loop.step, loop.count);
  return key;
}

// Joins chains of equal loops that are adjacent: a union, so the order in which they came does not matter.
void join_adjacent(Chains& chains) {
  std::sort(chains.begin(), chains.end(), [](const Chain& a, const Chain& b) {
    return std::forward_as_tuple(loop_key(a), a.at) < std::forward_as_tuple(loop_key(b), b.at);
  });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < chains.size(); ++i) {
    if (chains[kept].loops == chains[i].loops && chains[kept].at + chains[kept].length == chains[i].at) {
      chains[kept].length += chains[i].length;
    } else if (++kept != i) {
      chains[kept] = std::move(chains[i]);
    }
  }
  if (!chains.empty()) chains.resize(kept + 1);
}

FallsSet falls_of(const Chain& chain, std::size_t first_loop) {
  const Offset length = hull_length(chain, first_loop + 1);
  if (first_loop >= chain.loops.size()) return {{0, chain.length - 1, 0, 1, {}}};
  Falls falls{0, length - 1, chain.loops[first_loop].step, chain.loops[first_loop].count, {}};
  if (first_loop + 1 < chain.loops.size()) falls.inner = falls_of(chain, first_loop + 1);
  return {std::move(falls)};
}

void append_listed(const Chains& chains, FallsSet& out) {
  for (const Chain& chain : chains) {
    FallsSet set = falls_of(chain, 0);
    shift(set, chain.at);
    out.push_back(std::move(set.front()));
  }
}

FallsSet nest_sorted(Chains chains);

// A chain's blocks on the grid: one in each window [from, to), relative to the window's start.
struct Placed {
  Offset from;
  Offset to;
  Chain block;
};

class Grid {
 public:
  Grid(Offset origin, Offset step) : origin_(origin), step_(step) {}

  // False if a block would reach over the end of a window.
  bool place(const Chain& chain) {
    const bool has_step = !chain.loops.empty() && chain.loops.front().step == step_;
    if (!has_step && !chain.loops.empty() && crosses(chain, 0)) return place_split(chain);
    if (crosses(chain, has_step ? 1 : 0)) return false;
    Chain block = chain;
    if (has_step) block.loops.erase(block.loops.begin());
    add(chain.at, has_step ? chain.loops.front().count : 1, std::move(block));
    return true;
  }

  FallsSet nest() {
    std::vector<Offset> cuts;
    for (const Placed& placed : placed_) {
      cuts.push_back(placed.from);
      cuts.push_back(placed.to);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    FallsSet out;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      Chains active;
      for (const Placed& placed : placed_) {
        if (placed.from <= cuts[i] && cuts[i] < placed.to) active.push_back(placed.block);
      }
      if (active.empty()) continue;
      Falls falls{0, step_ - 1, step_, cuts[i + 1] - cuts[i], nest_sorted(std::move(active))};
      tighten(falls);
      falls.left += origin_ + cuts[i] * step_;
      falls.right += origin_ + cuts[i] * step_;
      out.push_back(std::move(falls));
    }
    return out;
  }

  [[nodiscard]] std::size_t size() const { return placed_.size(); }

 private:
  [[nodiscard]] bool crosses(const Chain& chain, std::size_t first_loop) const {
    return floor_mod(chain.at - origin_, step_) + hull_length(chain, first_loop) > step_;
  }

  void add(Offset at, Offset count, Chain block) {
    const Offset window = floor_div(at - origin_, step_);
    block.at = at - origin_ - window * step_;
    placed_.push_back({window, window + count, std::move(block)});
  }

  // A chain whose step divides the grid's: head to the first window border, whole windows, tail.
  bool place_split(const Chain& chain) {
    const Offset count = chain.loops.front().count;
    const Offset step = chain.loops.front().step;
    if (step_ % step != 0 || hull_length(chain, 1) > step) return false;
    const Offset per_window = step_ / step;
    const Offset phase = floor_mod(chain.at - origin_, step_);
    if (phase % step + hull_length(chain, 1) > step) return false;
    const Offset head = std::min(count, phase == 0 ? 0 : (step_ - phase + step - 1) / step);
    const Offset windows = (count - head) / per_window;
    const Offset tail = count - head - windows * per_window;
    const auto add_part = [&](Offset first, Offset number, Offset turns) {
      if (number == 0 || turns == 0) return;
      Chain block = chain;
      block.loops.front().count = number;
      if (number == 1) block.loops.erase(block.loops.begin());
      add(chain.at + first * step, turns, std::move(block));
    };
    add_part(0, head, 1);
    add_part(head, per_window, windows);
    add_part(head + windows * per_window, tail, 1);
    return true;
  }

  Offset origin_;
  Offset step_;
  std::vector<Placed> placed_;
};

// Chains that interleave.
void append_interleaved(Chains chains, FallsSet& out) {
  Offset step = 0;
  for (const Chain& chain : chains) {
    if (!chain.loops.empty()) step = std::max(step, chain.loops.front().step);
  }
  if (chains.size() <= kMostChains) {
    for (std::size_t i = 0; i < std::min(chains.size(), kMostOrigins); ++i) {
      Grid grid{chains.front().at - floor_mod(chains.front().at - chains[i].at, step), step};
      if (!std::all_of(chains.begin(), chains.end(), [&](const Chain& chain) { return grid.place(chain); })) continue;
      FallsSet nested = grid.nest();
      out.insert(out.end(), std::make_move_iterator(nested.begin()), std::make_move_iterator(nested.end()));
      return;
    }
  }
  append_listed(chains, out);
}

FallsSet nest_sorted(Chains chains) {
  for (Chain& chain : chains) normalise(chain);
  join_adjacent(chains);
  for (Chain& chain : chains) normalise(chain);
  std::sort(chains.begin(), chains.end(), [](const Chain& a, const Chain& b) { return a.at < b.at; });
  FallsSet out;
  for (std::size_t first = 0; first < chains.size();) {
    Offset reach = end(chains[first]);
    std::size_t next = first + 1;
    while (next < chains.size() && chains[next].at < reach) reach = std::max(reach, end(chains[next++]));
    Chains cluster(std::make_move_iterator(chains.begin() + static_cast<std::ptrdiff_t>(first)),
                   std::make_move_iterator(chains.begin() + static_cast<std::ptrdiff_t>(next)));
    if (cluster.size() == 1) {
      append_listed(cluster, out);
    } else {
      append_interleaved(std::move(cluster), out);
    }
    first = next;
  }
  return out;
}

}  // namespace

FallsSet nest(std::vector<Chain> chains) { return simplify(nest_sorted(std::move(chains))); }

}  // namespace weir::layout::internal
