// Any text: refused at a line that exists, or printed in a form that means the same.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <weir/model/machine.h>

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto machine = weir::model::parse(text);
  if (machine.is_ok()) {
    const auto again = weir::model::parse(print(*machine));
    require(again.is_ok() && *again == *machine);
  } else {
    const auto line = machine.status().location();
    require(line && *line >= 1 && *line <= std::count(text.begin(), text.end(), '\n') + 1);
  }
  return 0;
}
