#include <weir/report/internal/charts.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <weir/base/xml.h>
#include <weir/report/page.h>

namespace weir::report::internal {

using trace::FileSummary;
using trace::HeatMap;
using trace::kSizeClasses;

namespace {

constexpr const char* kWayColors[] = {kReadColor, kWriteColor};
constexpr const char* kPhaseNames[] = {"meeting other ranks", "locking", "packing", "moving bytes", "the rest"};
constexpr const char* kPhaseColors[] = {"#cc79a7", "#e69f00", "#56b4e9", "#009e73", "#bbbbbb"};

std::string begin(double width, double height, std::string_view title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
      "style=\"max-width:{0:.0f}px\" font-size=\"11\"><title>{2}</title>\n",
      width, height, escape_xml(title));
}

std::string text(double x, double y, std::string_view anchor, std::string_view content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"#555\">{}</text>\n", x, y, anchor,
                     escape_xml(content));
}

std::string box(double x, double y, double width, double height, std::string_view fill, double opacity = 1) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"{}/>\n", x, y,
                     width, height, fill, opacity < 1 ? fmt::format(" fill-opacity=\"{:.2f}\"", opacity) : "");
}

}  // namespace

std::string heat_map_chart(const HeatMap& heat) {
  constexpr double kLeft = 78, kTop = 8, kWidth = 800, kHeight = 300, kBottom = 40;
  constexpr double kCellWidth = kWidth / HeatMap::kColumns;
  constexpr double kCellHeight = kHeight / HeatMap::kRows;
  std::string out = begin(kLeft + kWidth + 30, kTop + kHeight + kBottom, "Bytes by file offset and time");
  out += box(kLeft, kTop, kWidth, kHeight, "#f6f6f6");
  double most = 0;
  for (const auto& way : heat.bytes) {
    for (const double bytes : way) most = std::max(most, bytes);
  }
  // Shades by the logarithm, down to a 1/4096 of the hottest cell.
  const auto opacity = [&](double bytes) { return std::clamp(1 + std::log2(bytes / most) / 12, 0.12, 1.0); };
  for (int row = 0; most > 0 && row < HeatMap::kRows; ++row) {
    for (int column = 0; column < HeatMap::kColumns; ++column) {
      const auto cell = static_cast<std::size_t>(row * HeatMap::kColumns + column);
      const bool has_both = heat.bytes[0][cell] > 0 && heat.bytes[1][cell] > 0;
      for (std::size_t way = 0; way < 2; ++way) {
        const double bytes = heat.bytes[way][cell];
        if (bytes <= 0) continue;
        const double shift = has_both && way == 0 ? kCellWidth / 2 : 0;
        out += box(kLeft + column * kCellWidth + shift, kTop + row * kCellHeight,
                   has_both ? kCellWidth / 2 : kCellWidth, kCellHeight, kWayColors[way], opacity(bytes));
      }
    }
  }
  for (int i = 0; i <= 4; ++i) {
    const double share = i / 4.0;
    out += text(kLeft - 6, kTop + kHeight * share + 4, "end", human_bytes(share * static_cast<double>(heat.file_end)));
    out += text(kLeft + kWidth * share, kTop + kHeight + 15,
                i == 0   ? "start"
                : i == 4 ? "end"
                         : "middle",
                human_seconds(share * heat.seconds));
  }
  out += text(kLeft, kTop + kHeight + 32, "start", "file offset downwards, time to the right");
  out += box(kLeft + 560, kTop + kHeight + 23, 10, 10, kWriteColor) +
         text(kLeft + 575, kTop + kHeight + 32, "start", "written");
  out += box(kLeft + 640, kTop + kHeight + 23, 10, 10, kReadColor) +
         text(kLeft + 655, kTop + kHeight + 32, "start", "read");
  out += text(kLeft + kWidth, kTop + kHeight + 32, "end", "darker: more bytes");
  return out + "</svg>\n";
}

std::string request_size_chart(const FileSummary& file) {
  int low = kSizeClasses;
  int high = -1;
  std::int64_t most = 0;
  for (int k = 0; k < kSizeClasses; ++k) {
    for (const auto& sizes : file.sizes) {
      const std::int64_t count = sizes[static_cast<std::size_t>(k)];
      if (count == 0) continue;
      low = std::min(low, k);
      high = std::max(high, k);
      most = std::max(most, count);
    }
  }
  if (high < 0) return "";
  low = std::max(low - 1, 0);  // room, so that a single class does not fill the picture
  high = std::min(std::max(high + 1, low + 5), kSizeClasses - 1);
  constexpr double kLeft = 50, kTop = 16, kWidth = 370, kHeight = 120;
  const double step = kWidth / (high - low + 1);
  std::string out = begin(kLeft + kWidth + 10, kTop + kHeight + 36, "Accesses by size");
  out +=
      fmt::format("<path d=\"M{0} {1}H{2}\" stroke=\"#999\" fill=\"none\"/>\n", kLeft, kTop + kHeight, kLeft + kWidth);
  for (int k = low; k <= high; ++k) {
    for (std::size_t way = 0; way < 2; ++way) {
      const std::int64_t count = file.sizes[way][static_cast<std::size_t>(k)];
      if (count == 0) continue;
      const double height = std::max(kHeight * static_cast<double>(count) / static_cast<double>(most), 1.5);
      const double x = kLeft + (k - low) * step + step * (way == 1 ? 0.08 : 0.5);
      out += box(x, kTop + kHeight - height, step * 0.42, height, kWayColors[way]);
      const std::string label = std::to_string(count);
      if (step * 0.42 >= 7 * static_cast<double>(label.size()) || count == most) {
        out += text(x + step * 0.21, kTop + kHeight - height - 3, "middle", label);
      }
    }
    const int every = std::max((high - low + 1) / 6, 1);
    if ((k - low) % every == 0) {
      out +=
          text(kLeft + (k - low) * step, kTop + kHeight + 15, "middle", k == 0 ? "0" : human_bytes(std::ldexp(1.0, k)));
    }
  }
  out += text(kLeft, kTop + kHeight + 31, "start", "bytes of one access, on all ranks");
  return out + "</svg>\n";
}

std::string phase_chart(const FileSummary& file) {
  double all = 0;
  for (const double seconds : file.phases) all += seconds;
  if (all <= 0) return "";
  constexpr double kWidth = 420, kBar = 26, kLine = 18;
  std::string out = begin(kWidth, kBar + 14 + kLine * (trace::kPhases + 1), "Time by phase");
  double at = 0;
  for (std::size_t i = 0; i < file.phases.size(); ++i) {
    const double width = kWidth * file.phases[i] / all;
    if (width > 0) out += box(at, 0, width, kBar, kPhaseColors[i]);
    at += width;
    const double y = kBar + 14 + kLine * static_cast<double>(i);
    out += box(0, y, 10, 10, kPhaseColors[i]) + text(16, y + 9, "start", kPhaseNames[i]);
    out += text(270, y + 9, "end", human_seconds(file.phases[i]));
    out += text(330, y + 9, "end", fmt::format("{:.0f} %", 100 * file.phases[i] / all));
  }
  return out + "</svg>\n";
}

}  // namespace weir::report::internal
