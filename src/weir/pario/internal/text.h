#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace weir::pario::internal {

inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace weir::pario::internal
