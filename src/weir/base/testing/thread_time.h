#pragma once

#include <chrono>

#include <sys/resource.h>

namespace weir::internal {

/// Processor time that this thread has used, whatever others do.
inline std::chrono::microseconds thread_time() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace weir::internal
