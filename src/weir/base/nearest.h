#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weir {

/// The one of `known` that `word` may have been meant to be: within one typing error for each three characters (a
/// character too many, too few or wrong, or two swapped), and the first of those with the fewest.  Nothing if none is
/// that close.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

}  // namespace weir
