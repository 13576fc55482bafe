// Any bytes as a trace: it is read or rejected, what was read can be summed up, and its lines can be written and read.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include <weir/trace/summary.h>

namespace {

template <typename Line>
void write_and_read(const Line& line) {
  using namespace weir::trace;
  std::string text = to_line(line);
  text.pop_back();
  const auto again = parse_line<Line>(text);
  if (!again || to_line(*again) != text + '\n') std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::trace;
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  const auto trace = read_trace(in);
  if (!trace.is_ok()) return 0;
  write_and_read<HeadLine>(*trace);
  for (const FailLine& line : trace->failures) write_and_read(line);
  for (const TracedFile& file : trace->files) {
    write_and_read<OpenLine>(file);
    for (const ChoiceLine& line : file.choices) write_and_read(line);
    for (const ViewLine& line : file.views) write_and_read(line);
    for (const AccessLine& line : file.accesses) write_and_read(line);
  }
  summarize({*trace});
  return 0;
}
