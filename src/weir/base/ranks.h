#pragma once

// How messages name the processes of a parallel program.

#include <string>
#include <vector>

namespace weir {

/// "0-2,5", in ascending order and each once.
std::string list_ranks(std::vector<int> ranks);

/// What values[rank] of the ranks are, where they differ: "rank 3: x; ranks 0-2,4: y", fewest first, since the odd one
/// out is the one to look at.  Of each value the first `shown` characters.  Empty if all are equal.
std::string describe_difference(const std::vector<std::string>& values, std::size_t shown = std::string::npos);

}  // namespace weir
