#pragma once

#include <cstdint>

namespace weir {

/// A number that nobody else has, as far as chance goes; never 0.
std::uint64_t random_id();

}  // namespace weir
