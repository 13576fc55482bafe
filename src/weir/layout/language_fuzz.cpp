// Any text: refused at a column that exists, or printed in a form that means the same and prints the same.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <weir/layout/language.h>

namespace {

using namespace weir::layout;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_column(const weir::Status& status, std::size_t length) {
  const auto column = status.location();
  require(column && *column >= 1 && *column <= static_cast<std::int64_t>(length) + 1);
}

void try_layout(std::string_view text) {
  const auto partition = parse(text);
  if (!partition.is_ok()) return require_column(partition.status(), text.size());
  const std::string printed = print(*partition);
  const auto again = parse(printed);
  require(again.is_ok() && again->description() == partition->description() && again->disp() == partition->disp() &&
          again->period() == partition->period() && print(*again) == printed);

  const weir::Offset last = partition->element_count() - 1;
  for (const weir::Offset index : {weir::Offset{0}, last}) {
    const auto element = partition->element(index);
    if (!element.is_ok() || element->is_empty()) continue;
    const auto x = element->unmap(element->size() - 1);
    require(x && element->map(*x) == element->size() - 1);
  }
  require(!partition->element(last + 1).is_ok());
}

void try_falls(std::string_view text) {
  const auto set = parse_falls(text);
  if (!set.is_ok()) return require_column(set.status(), text.size());
  const auto again = parse_falls(print(*set));
  require(again.is_ok() && *again == *set);
  require(node_count(simplify(*set)) <= node_count(*set));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  try_layout(text);
  try_falls(text);
  return 0;
}
