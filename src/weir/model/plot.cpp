#include <weir/model/validate.h>

// The plot: a square, both axes in nanoseconds per byte, the diagonal and its neighbours 12 % away.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <weir/base/xml.h>

namespace weir::model {
namespace {

constexpr double kEdge = 420;
constexpr double kLeft = 64;
constexpr double kTop = 36;
constexpr double kLegend = 190;
constexpr double kBand = 1.12;

// Distinct for most colour-blind readers.
constexpr const char* kColors[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9",
                                   "#E69F00", "#555555", "#8C564B", "#7F3FBF", "#A0A000"};

class Plot {
 public:
  Plot(std::span<const Point> points, const std::string& title) {
    for (const Point& point : points) {
      for (const double value :
           {nanoseconds(point.measured_seconds, point), nanoseconds(point.predicted_seconds, point)}) {
        low_ = std::min(low_, value);
        high_ = std::max(high_, value);
      }
      if (std::find(groups_.begin(), groups_.end(), point.group) == groups_.end()) groups_.push_back(point.group);
    }
    if (points.empty()) low_ = 0.1, high_ = 1;
    low_ = std::floor(std::log10(low_));
    high_ = std::max(std::ceil(std::log10(high_)), low_ + 1);
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" "
        "font-family=\"Helvetica,Arial,sans-serif\" font-size=\"11\">\n<title>{2}</title>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kLeft + kEdge + kLegend, kTop + kEdge + 56, escape_xml(title));
    text(kLeft, 20, title, "start");
    axes();
    diagonals();
    for (const Point& point : points) dot(point);
    legend(points);
    out_ += "</svg>\n";
  }

  std::string finish() && { return std::move(out_); }

 private:
  static double nanoseconds(double seconds, const Point& point) { return seconds * 1e9 / point.bytes; }
  [[nodiscard]] double share(double value) const { return (std::log10(value) - low_) / (high_ - low_); }
  [[nodiscard]] double x(double value) const { return kLeft + kEdge * share(value); }
  [[nodiscard]] double y(double value) const { return kTop + kEdge * (1 - share(value)); }

  void text(double at_x, double at_y, const std::string& content, const char* anchor) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at_x, at_y, anchor,
                        escape_xml(content));
  }

  void line(double x1, double y1, double x2, double y2, const char* style) {
    out_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, style);
  }

  void axes() {
    for (double decade = low_; decade <= high_; ++decade) {
      for (int digit = 1; digit < 10 && (digit == 1 || decade < high_); ++digit) {
        const double value = digit * std::pow(10, decade);
        const char* style =
            digit == 1 ? "stroke=\"#bbbbbb\" stroke-width=\"0.8\"" : "stroke=\"#eeeeee\" stroke-width=\"0.6\"";
        line(x(value), kTop, x(value), kTop + kEdge, style);
        line(kLeft, y(value), kLeft + kEdge, y(value), style);
        if (digit != 1) continue;
        text(x(value), kTop + kEdge + 16, fmt::format("{:g}", value), "middle");
        text(kLeft - 6, y(value) + 4, fmt::format("{:g}", value), "end");
      }
    }
    out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"black\"/>\n", kLeft,
                        kTop, kEdge, kEdge);
    text(kLeft + kEdge / 2, kTop + kEdge + 38, "measured, nanoseconds per byte", "middle");
    out_ += fmt::format(
        "<text transform=\"translate(18,{:.1f}) rotate(-90)\" text-anchor=\"middle\">predicted, nanoseconds per "
        "byte</text>\n",
        kTop + kEdge / 2);
  }

  void diagonals() {
    const double from = std::pow(10, low_);
    const double to = std::pow(10, high_);
    const char* const dashed = "stroke=\"black\" stroke-width=\"0.6\" stroke-dasharray=\"4 3\"";
    line(x(from), y(from), x(to), y(to), "stroke=\"black\" stroke-width=\"1\"");
    line(x(from), y(from * kBand), x(to / kBand), y(to), dashed);
    line(x(from * kBand), y(from), x(to), y(to / kBand), dashed);
  }

  [[nodiscard]] const char* color(const std::string& group) const {
    const auto index = std::find(groups_.begin(), groups_.end(), group) - groups_.begin();
    return kColors[static_cast<std::size_t>(index) % std::size(kColors)];
  }

  void dot(const Point& point) {
    out_ += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.2\" fill=\"{}\" fill-opacity=\"0.65\"><title>{}</title></circle>\n",
        x(nanoseconds(point.measured_seconds, point)), y(nanoseconds(point.predicted_seconds, point)),
        color(point.group), escape_xml(point.name));
  }

  void legend(std::span<const Point> points) {
    const double left = kLeft + kEdge + 16;
    double top = kTop + 10;
    for (const std::string& group : groups_) {
      const auto number = std::count_if(points.begin(), points.end(), [&](const Point& p) { return p.group == group; });
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", left, top - 4, color(group));
      text(left + 10, top, fmt::format("{} ({})", group, number), "start");
      top += 17;
    }
    line(left - 6, top - 4, left + 6, top - 4, "stroke=\"black\" stroke-width=\"0.6\" stroke-dasharray=\"4 3\"");
    text(left + 10, top, "12 % off", "start");
  }

  double low_ = 1e300;
  double high_ = 0;
  std::vector<std::string> groups_;
  std::string out_;
};

}  // namespace

std::string draw_svg(std::span<const Point> points, const std::string& title) { return Plot(points, title).finish(); }

}  // namespace weir::model
