#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace weir {

inline void append(std::string& out, std::string_view text) { out.append(text); }
inline void append(std::string& out, char character) { out.push_back(character); }
template <std::integral Integer>
void append(std::string& out, Integer value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

/// Joins texts, characters and integers into one string: concat("element ", 3, " of ", n).
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

/// At most `most` characters of `text`, with "..." where it was cut.  \pre `most` is 3 at least.
inline std::string shorten(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  text.resize(most - 3);
  return text + "...";
}

}  // namespace weir
