#pragma once

#include <string>
#include <string_view>

#include <weir/cli/internal/palette.h>

namespace weir::cli::internal {

struct Point {
  double x = 0;
  double y = 0;
};

struct SvgText {
  double size = 11;
  std::string_view anchor = "start";  ///< start, middle or end
  std::string_view color = "#000000";
  bool is_code = false;  ///< Fixed-width font.
};

/// Builds the text of one SVG file, shape after shape.
class SvgWriter {
 public:
  SvgWriter(double width, double height, std::string_view title);

  void rectangle(Point corner, Point size, Rgb fill);
  void frame(Point corner, Point size);
  /// A shape from path commands; `attributes` as they stand in the file.
  void path(std::string_view commands, std::string_view attributes);
  void line(Point from, Point to);
  void text(Point at, std::string_view content, const SvgText& style);

  std::string finish() &&;

 private:
  std::string out_;
};

/// At most two decimals, none where none are needed.
std::string svg_number(double number);

/// "M x y h w v h h -w z"
std::string rectangle_path(Point corner, Point size);

}  // namespace weir::cli::internal
