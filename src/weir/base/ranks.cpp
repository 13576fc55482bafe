#include <weir/base/ranks.h>

#include <algorithm>
#include <map>
#include <utility>

#include <weir/base/text.h>

namespace weir {

std::string list_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) out += ',';
    out += last == i ? concat(ranks[i]) : concat(ranks[i], last == i + 1 ? ',' : '-', ranks[last]);
    i = last + 1;
  }
  return out;
}

std::string describe_difference(const std::vector<std::string>& values, std::size_t shown) {
  std::map<std::string, std::vector<int>> by_value;
  for (std::size_t i = 0; i < values.size(); ++i) by_value[values[i]].push_back(static_cast<int>(i));
  if (by_value.size() <= 1) return {};
  std::vector<std::pair<std::string, std::vector<int>>> groups(by_value.begin(), by_value.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& x, const auto& y) { return x.second.size() < y.second.size(); });
  std::string out;
  for (const auto& [value, ranks] : groups) {
    out += concat(out.empty() ? "" : "; ", ranks.size() == 1 ? "rank " : "ranks ", list_ranks(ranks), ": ",
                  value.substr(0, shown));
  }
  return out;
}

}  // namespace weir
