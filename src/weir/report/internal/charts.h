#pragma once

// The pictures of a report, as SVG to stand in a page.

#include <string>

#include <weir/trace/summary.h>

namespace weir::report::internal {

inline constexpr char kReadColor[] = "#0072b2";
inline constexpr char kWriteColor[] = "#d55e00";

std::string heat_map_chart(const trace::HeatMap& heat);
std::string request_size_chart(const trace::FileSummary& file);
std::string phase_chart(const trace::FileSummary& file);

}  // namespace weir::report::internal
