#include <weir/cli/internal/printable.h>

#include <cstdint>

#include <fmt/format.h>

#include <weir/base/json_text.h>

namespace weir::cli::internal {

namespace {

// Bytes of the character that `text` begins with, if it can be shown; otherwise 0.
std::size_t shown_bytes(std::string_view text) {
  const std::size_t length = utf8_length(text);
  const auto first = static_cast<std::uint8_t>(text[0]);
  if (length == 1) return first >= 0x20 && first != 0x7F ? 1 : 0;
  // U+0080 to U+009F control terminals as well.
  const bool is_control = first == 0xC2 && static_cast<std::uint8_t>(text[1]) < 0xA0;
  return length > 1 && !is_control ? length : 0;
}

std::string escape(char character) {
  switch (character) {
    case '\n': return "\\n";
    case '\t': return "\\t";
    case '\r': return "\\r";
    default: return fmt::format("\\x{:02x}", static_cast<std::uint8_t>(character));
  }
}

}  // namespace

std::string printable(std::string_view name) {
  std::string word = "$'";
  bool is_plain = true;
  for (std::string_view rest = name; !rest.empty();) {
    const std::size_t shown = shown_bytes(rest);
    is_plain = is_plain && shown > 0;
    if (shown == 0) {
      word += escape(rest[0]);
    } else {
      if (rest[0] == '\'' || rest[0] == '\\') word += '\\';
      word += rest.substr(0, shown);
    }
    rest.remove_prefix(shown == 0 ? 1 : shown);
  }
  return is_plain ? std::string(name) : word + "'";
}

std::string printable_message(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t shown = text[0] == '\n' ? 1 : shown_bytes(text);
    out += shown == 0 ? escape(text[0]) : std::string(text.substr(0, shown));
    text.remove_prefix(shown == 0 ? 1 : shown);
  }
  return out;
}

}  // namespace weir::cli::internal
