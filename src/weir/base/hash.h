#pragma once

#include <cstdint>
#include <string_view>

namespace weir {

/// XXH3 of `bytes`.  It tells apart what differs by accident, not what somebody made to collide.
/// \param seed the hash of what comes before, if there is something
std::uint64_t hash_of(std::string_view bytes, std::uint64_t seed = 0) noexcept;

}  // namespace weir
