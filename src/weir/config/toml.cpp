#define TOML_IMPLEMENTATION
#include <weir/config/toml.h>

#include <weir/base/text.h>

namespace weir::config {

Result<toml::table> parse(std::string_view text) {
  toml::parse_result result = toml::parse(text);
  if (result) return std::move(result).table();
  const auto line = static_cast<std::int64_t>(result.error().source().begin.line);
  return Status{ErrorCode::kCorrupt, concat("line ", line, ": ", result.error().description()), line};
}

}  // namespace weir::config
