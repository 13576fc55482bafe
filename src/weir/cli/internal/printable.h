#pragma once

#include <string>
#include <string_view>

namespace weir::cli::internal {

/// A name as it can be shown: itself, or if it has control characters or bytes that are not UTF-8, a word for the shell
/// that means it: $'a\nb'.  So a name is always on one line, and cannot make a terminal do anything.
std::string printable(std::string_view name);

/// A message: control characters but line ends become \x1b and the like.
std::string printable_message(std::string_view text);

}  // namespace weir::cli::internal
