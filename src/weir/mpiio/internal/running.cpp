#include <weir/mpiio/internal/running.h>

#include <cstdlib>

namespace weir::mpiio::internal {

std::chrono::seconds longest_wait() {
  static const std::chrono::seconds limit = [] {
    const char* const text = std::getenv("WEIR_MPIIO_TIMEOUT");
    const long value = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
    return std::chrono::seconds(value > 0 ? value : 60);
  }();
  return limit;
}

}  // namespace weir::mpiio::internal
