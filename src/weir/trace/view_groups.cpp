#include <weir/trace/view_groups.h>

#include <algorithm>
#include <map>

#include <weir/base/text.h>
#include <weir/layout/language.h>

namespace weir::trace {
namespace {

constexpr std::size_t kMostPlaces = 6;

// The same pattern, moved to start at byte 0.
layout::FallsSet at_zero(layout::FallsSet set) {
  if (set.empty()) return set;
  const Offset shift = std::min_element(set.begin(), set.end(), [](const layout::Falls& x, const layout::Falls& y) {
                         return x.left < y.left;
                       })->left;
  for (layout::Falls& falls : set) {
    falls.left -= shift;
    falls.right -= shift;
  }
  if (set.size() == 1 && !set[0].is_leaf()) {
    // What the inner set leaves free at its start belongs to the place too.  Of several, each has its place among the
    // others.
    set[0].inner = at_zero(std::move(set[0].inner));
    set[0].right = layout::extent(set[0].inner) - 1;
  }
  return layout::simplify(std::move(set));
}

// Places as "a + d x rank" if they are so.
std::string describe_places(const std::vector<int>& ranks, const std::vector<Offset>& places) {
  if (places.size() == 1) return concat("byte ", places[0]);
  if (std::all_of(places.begin(), places.end(), [&](Offset place) { return place == places[0]; })) {
    return concat("byte ", places[0]);
  }
  const Offset step = (places[1] - places[0]) / std::max(ranks[1] - ranks[0], 1);
  const auto is_regular = [&] {
    for (std::size_t i = 1; i < places.size(); ++i) {
      const auto distance = checked_mul(step, ranks[i] - ranks[0]);
      if (!distance.is_ok() || places[i] - places[0] != *distance) return false;
    }
    return true;
  };
  if (step > 0 && is_regular()) {
    const auto before = checked_mul(step, ranks[0]);
    return !before.is_ok() || *before > places[0]
               ? concat("byte ", places[0], " + ", step, " x (rank - ", ranks[0], ")")
               : concat("byte ", places[0] - *before, " + ", step, " x rank");
  }
  std::string out = "bytes ";
  for (std::size_t i = 0; i < std::min(places.size(), kMostPlaces); ++i) out += concat(i > 0 ? ", " : "", places[i]);
  return places.size() > kMostPlaces ? out + ", ..." : out;
}

}  // namespace

bool is_whole(const layout::Element& element) { return element.is_endless() && element.disp() == 0; }

std::vector<ViewGroup> group_views(const std::vector<RankView>& views) {
  struct Open {
    ViewGroup group;
    std::vector<Offset> places;
  };
  std::vector<Open> groups;
  std::map<std::string, std::size_t> by_pattern;
  for (const RankView& view : views) {
    const std::string pattern = layout::print(at_zero(view.element.falls()));
    const std::string key = concat(is_whole(view.element) ? 1 : 0, ' ', view.element.period(), ' ', pattern);
    const auto [at, is_new] = by_pattern.try_emplace(key, groups.size());
    if (is_new) {
      Open open;
      open.group.pattern = pattern;
      open.group.size = view.element.size();
      open.group.period = view.element.period();
      open.group.is_whole = is_whole(view.element);
      groups.push_back(std::move(open));
    }
    Open& open = groups[at->second];
    open.group.bytes += view.bytes;
    open.group.lowest_degree = std::min(open.group.lowest_degree, view.degree);
    open.group.highest_degree = std::max(open.group.highest_degree, view.degree);
    open.group.ranks.push_back(view.rank);
    open.places.push_back(view.element.unmap(0).value_or(view.element.disp()));
  }
  std::vector<ViewGroup> out;
  for (Open& open : groups) {
    open.group.place = describe_places(open.group.ranks, open.places);
    out.push_back(std::move(open.group));
  }
  return out;
}

}  // namespace weir::trace
