#pragma once

#include <string>
#include <vector>

namespace weir::launch {

/// Becomes the program that the first word names, found on PATH, with the words as its arguments.
/// \returns only if it cannot: the errno
int exec_words(std::vector<std::string> words);

}  // namespace weir::launch
