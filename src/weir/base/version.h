#pragma once

#include <string_view>

namespace weir {

/// The version of Weir that this was built from, such as "1.2.3".
[[nodiscard]] std::string_view version();

}  // namespace weir
