#pragma once

#include <string>
#include <string_view>

namespace weir {

/// `text` as content or quoted attribute of XML and HTML.  Control characters, which neither may have, become blanks.
[[nodiscard]] std::string escape_xml(std::string_view text);

}  // namespace weir
