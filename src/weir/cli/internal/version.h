#pragma once

#include <string_view>

namespace weir::cli::internal {

#ifdef WEIR_VERSION
inline constexpr std::string_view kVersion = WEIR_VERSION;
#else
inline constexpr std::string_view kVersion = "0.1.0";
#endif

}  // namespace weir::cli::internal
