#include <weir/base/xml.h>

namespace weir {

std::string escape_xml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char character : text) {
    switch (character) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(character) < ' ' ? ' ' : character;
    }
  }
  return out;
}

}  // namespace weir
