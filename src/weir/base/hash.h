#pragma once

#include <cstdint>
#include <string_view>

namespace weir {

/// XXH3 of `bytes`.  It tells apart what differs by accident, not what somebody made to collide.
std::uint64_t hash_of(std::string_view bytes) noexcept;

}  // namespace weir
