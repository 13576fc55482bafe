#pragma once

// What repeated measurements say, for benchmarks and models.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace weir {

/// Median and quartiles.
struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// \pre values is not empty
inline Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at(0.5), at(0.25), at(0.75)};
}

}  // namespace weir
