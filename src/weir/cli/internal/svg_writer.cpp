#include <weir/cli/internal/svg_writer.h>

#include <cmath>

#include <fmt/format.h>

#include <weir/base/text.h>
#include <weir/base/xml.h>

namespace weir::cli::internal {

std::string svg_number(double number) {
  const double rounded = std::round(number * 100) / 100;
  return fmt::format("{:.9g}", rounded == 0 ? 0.0 : rounded);  // no "-0"
}

std::string rectangle_path(Point corner, Point size) {
  const std::string width = svg_number(size.x);
  return concat("M", svg_number(corner.x), " ", svg_number(corner.y), "h", width, "v", svg_number(size.y), "h-", width,
                "z");
}

SvgWriter::SvgWriter(double width, double height, std::string_view title) {
  const std::string w = svg_number(std::ceil(width));
  const std::string h = svg_number(std::ceil(height));
  out_ = concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w, "\" height=\"", h, "\" viewBox=\"0 0 ", w, " ",
                h, "\" font-family=\"Helvetica, Arial, sans-serif\">\n<title>", escape_xml(title), "</title>\n",
                "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
}

void SvgWriter::rectangle(Point corner, Point size, Rgb fill) {
  path(rectangle_path(corner, size), concat("fill=\"", to_hex(fill), "\""));
}

void SvgWriter::frame(Point corner, Point size) {
  path(rectangle_path(corner, size), "fill=\"none\" stroke=\"#444444\" stroke-width=\"0.8\"");
}

void SvgWriter::path(std::string_view commands, std::string_view attributes) {
  out_ += concat("<path ", attributes, " d=\"", commands, "\"/>\n");
}

void SvgWriter::line(Point from, Point to) {
  path(concat("M", svg_number(from.x), " ", svg_number(from.y), "L", svg_number(to.x), " ", svg_number(to.y)),
       "fill=\"none\" stroke=\"#444444\" stroke-width=\"0.8\"");
}

void SvgWriter::text(Point at, std::string_view content, const SvgText& style) {
  out_ += concat("<text x=\"", svg_number(at.x), "\" y=\"", svg_number(at.y), "\" font-size=\"", svg_number(style.size),
                 "\"");
  if (style.anchor != "start") out_ += concat(" text-anchor=\"", style.anchor, "\"");
  if (style.color != "#000000") out_ += concat(" fill=\"", style.color, "\"");
  if (style.is_code) out_ += " font-family=\"monospace\"";
  out_ += concat(">", escape_xml(content), "</text>\n");
}

std::string SvgWriter::finish() && {
  out_ += "</svg>\n";
  return std::move(out_);
}

}  // namespace weir::cli::internal
