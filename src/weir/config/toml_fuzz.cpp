// Any text as TOML: refused at a line that exists, or a table that can be walked and, where it can be written, read
// again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string_view>

#include <weir/base/testing/fuzz_input.h>
#include <weir/config/toml.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using weir::testing::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = weir::config::parse(text);
  if (!table.is_ok()) {
    const auto line = table.status().location();
    require(line && *line >= 1 && *line <= std::count(text.begin(), text.end(), '\n') + 1, "the line exists");
    return 0;
  }
  std::ostringstream written;
  written << *table;
  require(weir::config::parse(written.str()).is_ok(), "what was written can be read");
  return 0;
}
