#include <weir/base/nearest.h>

#include <algorithm>
#include <vector>

namespace weir {

namespace {

// Optimal string alignment: no part is edited twice, so three rows of the table are enough.
std::size_t typing_errors(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t wrong = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({wrong, last[j] + 1, row[j - 1] + 1});
      const bool are_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (are_swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kLongestName = 64;  // of anything that has a name here
  if (word.size() > kLongestName) return std::nullopt;
  std::optional<std::string> best;
  std::size_t fewest = std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const std::string& one : known) {
    if (one.size() > kLongestName) continue;
    const std::size_t errors = typing_errors(word, one);
    if (errors >= fewest) continue;
    fewest = errors;
    best = one;
  }
  return best;
}

}  // namespace weir
