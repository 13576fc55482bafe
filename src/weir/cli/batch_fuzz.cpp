// Any bytes as batch input: every line is answered by one line of JSON, and nothing crashes or hangs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include <weir/cli/internal/batch.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::cli::internal;
  BatchLimits limits;
  limits.pieces = 1000;
  limits.line_bytes = 4096;
  limits.cached = 8;
  limits.cost_calls = 1;
  limits.budget = {.runs = 1024, .steps = 16384};
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::istringstream in(text);
  std::ostringstream out;
  if (!run_batch(in, out, limits).is_ok()) std::abort();
  const std::string answers = out.str();
  auto lines = std::count(text.begin(), text.end(), '\n');
  if (!text.empty() && text.back() != '\n') ++lines;
  if (std::count(answers.begin(), answers.end(), '\n') != lines) std::abort();
  return 0;
}
