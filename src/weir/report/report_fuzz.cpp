// Whatever was read of any bytes as traces can be shown.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include <weir/report/page.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::report;
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  const auto trace = weir::trace::read_trace(in);
  if (!trace.is_ok()) return 0;
  const auto summary = weir::trace::summarize({*trace});
  const std::string page = report_page(summary, std::nullopt);
  if (page.find("<script") != std::string::npos || !page.ends_with("</html>\n")) std::abort();
  if (report_json(summary, std::nullopt).empty()) std::abort();
  return 0;
}
