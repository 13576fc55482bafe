#include "fs_report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include <weir/base/xml.h>

namespace weir::bench {

std::string number(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

namespace {

bool is_number(const std::string& cell) {
  double value = 0;
  const auto end = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return !cell.empty() && end.ec == std::errc() && end.ptr == cell.data() + cell.size();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

void print_row(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_left = i == 0 || !is_number(cells[i]);
    line += is_left ? fmt::format("{:<{}}  ", cells[i], widths[i]) : fmt::format("{:>{}}  ", cells[i], widths[i]);
  }
  std::printf("%s\n", line.substr(0, line.find_last_not_of(' ') + 1).c_str());
}

}  // namespace

void print_text(const std::vector<Table>& tables) {
  for (const Table& table : tables) {
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      std::size_t width = table.columns[i].size();
      for (const auto& row : table.rows) width = std::max(width, row[i].size());
      widths.push_back(width);
    }
    std::printf("%s\n", table.title.c_str());
    print_row(table.columns, widths);
    for (const auto& row : table.rows) print_row(row, widths);
    if (!table.note.empty()) std::printf("%s\n", table.note.c_str());
    std::printf("\n");
  }
}

void print_json(const std::vector<Table>& tables) {
  std::printf("[");
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const Table& table = tables[t];
    std::printf("%s\n {\"table\": %s, \"rows\": [", t == 0 ? "" : ",", quoted(table.title).c_str());
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      std::printf("%s\n  {", r == 0 ? "" : ",");
      for (std::size_t i = 0; i < table.columns.size(); ++i) {
        const std::string& cell = table.rows[r][i];
        std::printf("%s%s: %s", i == 0 ? "" : ", ", quoted(table.columns[i]).c_str(),
                    is_number(cell) ? cell.c_str() : quoted(cell).c_str());
      }
      std::printf("}");
    }
    std::printf("\n ]}");
  }
  std::printf("\n]\n");
}

Goals::Goals(std::string title, std::string note)
    : table_{std::move(title), {"case", "against", "median", "low", "high", "wanted", ""}, {}, std::move(note)} {}

void Goals::at_least(const std::string& name, const std::string& rival, const transfer::internal::Ratio& value,
                     double wanted) {
  add({name, rival}, value, wanted > 0 ? ">= " + number(wanted, 2) : "", wanted > 0 && value.median < wanted);
}

void Goals::at_most(const std::string& name, const std::string& unit, const transfer::internal::Ratio& value,
                    double wanted) {
  add({name, unit}, value, wanted > 0 ? "<= " + number(wanted, 2) : "", wanted > 0 && value.median > wanted);
}

void Goals::add(std::vector<std::string> what, const transfer::internal::Ratio& value, std::string wanted,
                bool is_missed) {
  for (const double cell : {value.median, value.low, value.high}) what.push_back(number(cell, 2));
  what.push_back(std::move(wanted));
  what.emplace_back(is_missed ? "MISSED" : "");
  table_.rows.push_back(std::move(what));
}

// ---------------------------------------------------------------- plots

namespace {

constexpr double kWidth = 300;
constexpr double kHeight = 190;
constexpr double kLeft = 62;
constexpr double kTop = 34;
constexpr double kBottom = 48;
constexpr double kHead = 52;

// Distinct for most colour-blind readers.
constexpr const char* kColors[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#555555", "#56B4E9"};

std::string text_at(double x, double y, const std::string& content, const char* anchor = "start") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_xml(content));
}

// A step of 1, 2 or 5 times a power of ten, so that there are about five to the top.
double nice_step(double top) {
  const double power = std::pow(10, std::floor(std::log10(top / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (power * factor * 5 >= top) return power * factor;
  }
  return power * 10;
}

class Panel {
 public:
  Panel(const PlotPanel& panel, double left, double top) : panel_(panel), left_(left + kLeft), top_(top + kTop) {
    for (const PlotSeries& series : panel.series) {
      for (const PlotPoint& point : series.points) {
        x_low_ = std::min(x_low_, std::log2(point.x));
        x_high_ = std::max(x_high_, std::log2(point.x));
        y_high_ = std::max(y_high_, point.y);
        if (point.y > 0) y_low_ = std::min(y_low_, point.y);
      }
    }
    if (x_high_ <= x_low_) x_low_ -= 0.5, x_high_ += 0.5;
    if (panel.is_log_y) {
      y_low_ = std::floor(std::log10(y_low_));
      y_high_ = std::max(std::ceil(std::log10(y_high_)), y_low_ + 1);
    } else {
      y_low_ = 0;
      y_step_ = nice_step(std::max(y_high_, 1e-9));
      y_high_ = y_step_ * std::ceil(std::max(y_high_, 1e-9) / y_step_);
    }
  }

  std::string draw() const {
    std::string out = text_at(left_, top_ - 10, panel_.title);
    out += axes();
    for (std::size_t i = 0; i < panel_.series.size(); ++i)
      out += curve(panel_.series[i], kColors[i % std::size(kColors)]);
    return out;
  }

 private:
  [[nodiscard]] double x(double value) const {
    return left_ + kWidth * (std::log2(value) - x_low_) / (x_high_ - x_low_);
  }
  [[nodiscard]] double y(double value) const {
    const double at = panel_.is_log_y ? std::log10(std::max(value, 1e-300)) : value;
    return top_ + kHeight * (1 - std::clamp((at - y_low_) / (y_high_ - y_low_), 0.0, 1.0));
  }

  [[nodiscard]] std::string level(double value) const {
    return fmt::format("<path fill=\"none\" stroke=\"#dddddd\" d=\"M{:.1f} {:.1f}h{:.1f}\"/>\n", left_, y(value),
                       kWidth) +
           text_at(left_ - 5, y(value) + 4, fmt::format("{:g}", value), "end");
  }

  [[nodiscard]] std::string axes() const {
    std::string out;
    if (panel_.is_log_y) {
      for (double decade = y_low_; decade <= y_high_; ++decade) out += level(std::pow(10, decade));
    } else {
      for (double value = 0; value <= y_high_ * 1.0001; value += y_step_) out += level(value);
    }
    for (double power = std::ceil(x_low_); power <= x_high_; ++power) {
      out += text_at(x(std::exp2(power)), top_ + kHeight + 15, fmt::format("{:g}", std::exp2(power)), "middle");
    }
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"black\"/>\n",
                       left_, top_, kWidth, kHeight);
    out += text_at(left_ + kWidth / 2, top_ + kHeight + 32, panel_.x_label, "middle");
    out += fmt::format("<text transform=\"translate({:.1f},{:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                       left_ - 46, top_ + kHeight / 2, escape_xml(panel_.y_label));
    return out;
  }

  [[nodiscard]] std::string curve(const PlotSeries& series, const char* color) const {
    std::string path;
    std::string dots;
    for (const PlotPoint& point : series.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(point.x), y(point.y));
      dots +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>\n", x(point.x), y(point.y), color);
    }
    if (path.empty()) return dots;
    return fmt::format("<path fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" d=\"{}\"/>\n", color, path) + dots;
  }

  const PlotPanel& panel_;
  double left_;
  double top_;
  double x_low_ = 1e300;
  double x_high_ = -1e300;
  double y_low_ = 1e300;
  double y_high_ = 0;
  double y_step_ = 1;
};

std::string legend(const PlotPanel& panel) {
  std::string out;
  double left = kLeft;
  for (std::size_t i = 0; i < panel.series.size(); ++i) {
    out +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"36\" r=\"4\" fill=\"{}\"/>\n", left, kColors[i % std::size(kColors)]);
    out += text_at(left + 8, 40, panel.series[i].name);
    left += 24 + 6.5 * static_cast<double>(panel.series[i].name.size());
  }
  return out;
}

}  // namespace

std::string draw_panels(const std::string& title, const std::vector<PlotPanel>& panels, int across) {
  const double cell_width = kLeft + kWidth + 20;
  const double cell_height = kTop + kHeight + kBottom;
  const double rows = std::ceil(static_cast<double>(panels.size()) / across);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"Helvetica,Arial,sans-serif\" font-size=\"11\">\n<title>{2}</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      cell_width * across, kHead + cell_height * rows, escape_xml(title));
  out += text_at(kLeft, 20, title);
  if (!panels.empty()) out += legend(panels.front());
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const double column = static_cast<double>(i % static_cast<std::size_t>(across));
    const double row = static_cast<double>(i / static_cast<std::size_t>(across));
    out += Panel(panels[i], column * cell_width, kHead + row * cell_height).draw();
  }
  return out + "</svg>\n";
}

void write_file(const std::string& name, const std::string& text) {
  std::FILE* file = std::fopen(name.c_str(), "w");
  const bool is_written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool is_closed = file != nullptr && std::fclose(file) == 0;
  if (is_written && is_closed) return;
  std::fprintf(stderr, "benchmark: cannot write %s\n", name.c_str());
  std::_Exit(2);
}

Arguments parse_arguments(int argc, char** argv, std::string_view help) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      arguments.is_json = true;
    } else if (argument == "--quick") {
      arguments.is_quick = true;
    } else if (argument == "--svg" && i + 1 < argc) {
      arguments.svg = argv[++i];
    } else if (!argument.starts_with("-") && arguments.text.empty()) {
      arguments.text = argument;
    } else {
      const bool is_help = argument == "--help" || argument == "-h";
      std::fprintf(is_help ? stdout : stderr, "%.*s", static_cast<int>(help.size()), help.data());
      std::exit(is_help ? 0 : 2);
    }
  }
  return arguments;
}

}  // namespace weir::bench
