#include <algorithm>

#include <weir/cli/internal/command.h>
#include <weir/cli/internal/svg.h>
#include <weir/cli/internal/svg_writer.h>

namespace weir::cli::internal {
namespace {

constexpr double kBandLeft = 40;
constexpr double kWidth = 880;
constexpr double kBandHeight = 24;
constexpr double kBandDistance = 120;
constexpr double kBandTop = 56;
constexpr std::size_t kMostLabels = 24;

/// One of the three address spaces, drawn from left to right.
class Band {
 public:
  Band(double y, const layout::Range& range) : y_(y), range_(range) {}

  [[nodiscard]] double x(Offset offset) const {
    const auto length = static_cast<double>(std::max<Offset>(range_.to - range_.from, 1));
    return kBandLeft + kWidth * static_cast<double>(offset - range_.from) / length;
  }
  [[nodiscard]] double top() const { return y_; }
  [[nodiscard]] double bottom() const { return y_ + kBandHeight; }
  [[nodiscard]] const layout::Range& range() const { return range_; }

 private:
  double y_;
  layout::Range range_;
};

std::string ribbon(const Band& upper, Offset upper_offset, const Band& lower, Offset lower_offset, Offset length) {
  const auto point = [](char command, double x, double y) {
    return concat(command, svg_number(x), " ", svg_number(y));
  };
  return point('M', upper.x(upper_offset), upper.bottom()) +
         point('L', upper.x(upper_offset + length), upper.bottom()) +
         point('L', lower.x(lower_offset + length), lower.top()) + point('L', lower.x(lower_offset), lower.top()) + "z";
}

class PiecesDrawing {
 public:
  explicit PiecesDrawing(const PieceDrawing& drawing)
      : drawing_(drawing),
        a_(kBandTop, drawing.a),
        file_(kBandTop + kBandDistance, drawing.file),
        b_(kBandTop + 2 * kBandDistance, drawing.b),
        svg_(kBandLeft * 2 + kWidth, b_.bottom() + 50, concat(drawing.a_title, "; ", drawing.b_title)) {}

  std::string draw() && {
    for (std::size_t i = 0; i < drawing_.pieces.size(); ++i) draw_piece(drawing_.pieces[i], static_cast<Offset>(i));
    draw_band(a_, drawing_.a_title, a_.top() - 28);
    draw_band(file_, "", 0);
    draw_band(b_, drawing_.b_title, b_.bottom() + 34);
    draw_labels();
    return std::move(svg_).finish();
  }

 private:
  void draw_piece(const layout::Piece& piece, Offset index) {
    const Rgb color = element_color(index % 6, 6);  // without yellow and black: ribbons lie on white and carry labels
    const std::string fill = concat("fill=\"", to_hex(color), "\"");
    svg_.path(ribbon(a_, piece.a, file_, piece.file, piece.length), fill + " fill-opacity=\"0.35\"");
    svg_.path(ribbon(file_, piece.file, b_, piece.b, piece.length), fill + " fill-opacity=\"0.35\"");
    draw_part(a_, piece.a, piece.length, color);
    draw_part(file_, piece.file, piece.length, color);
    draw_part(b_, piece.b, piece.length, color);
  }

  void draw_part(const Band& band, Offset offset, Offset length, Rgb color) {
    const double x = band.x(offset);
    svg_.rectangle({x, band.top()}, {std::max(band.x(offset + length) - x, 0.3), kBandHeight}, color);
  }

  void draw_band(const Band& band, const std::string& title, double title_y) {
    svg_.frame({kBandLeft, band.top()}, {kWidth, kBandHeight});
    if (!title.empty()) svg_.text({kBandLeft, title_y}, shorten(title, 110), {.size = 12, .is_code = true});
  }

  /// Offsets where pieces begin, if they are few, and the two ends.
  void draw_labels() {
    std::vector<Offset> a{drawing_.a.from, drawing_.a.to};
    std::vector<Offset> file{drawing_.file.from, drawing_.file.to};
    std::vector<Offset> b{drawing_.b.from, drawing_.b.to};
    if (drawing_.pieces.size() <= kMostLabels) {
      for (const layout::Piece& piece : drawing_.pieces) {
        a.push_back(piece.a);
        file.push_back(piece.file);
        b.push_back(piece.b);
      }
    }
    label(a_, std::move(a), a_.top() - 5);
    label(file_, std::move(file), file_.top() + kBandHeight / 2 + 4);
    label(b_, std::move(b), b_.bottom() + 13);
    svg_.text({kBandLeft - 6, file_.top() - 5}, "file", {.size = 12, .anchor = "end"});
  }

  void label(const Band& band, std::vector<Offset> offsets, double y) {
    std::sort(offsets.begin(), offsets.end());
    double free_from = 0;
    for (const Offset offset : offsets) {
      const std::string text = concat(offset);
      const double x = band.x(offset);
      const double half = 3.1 * static_cast<double>(text.size());
      if (x - half < free_from) continue;
      svg_.text({x, y}, text, {.size = 10, .anchor = "middle", .color = "#222222"});
      free_from = x + half + 4;
    }
  }

  const PieceDrawing& drawing_;
  const Band a_;
  const Band file_;
  const Band b_;
  SvgWriter svg_;
};

}  // namespace

std::string draw_pieces_svg(const PieceDrawing& drawing) { return PiecesDrawing(drawing).draw(); }

}  // namespace weir::cli::internal
