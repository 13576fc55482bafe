#include <algorithm>
#include <fstream>
#include <map>

#include <weir/cli/internal/array_picture.h>
#include <weir/cli/internal/command.h>
#include <weir/cli/internal/svg.h>
#include <weir/cli/internal/svg_writer.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

constexpr double kLeft = 64;
constexpr double kTop = 66;
constexpr double kBottom = 34;
constexpr double kLegendWidth = 230;
constexpr double kSide = 640;  // of a picture with many cells
constexpr double kLargestCell = 28;
constexpr double kSmallestText = 5;
constexpr std::size_t kTitleCharacters = 120;
constexpr Offset kLegendEntries = 16;
constexpr Offset kMostNumberedCells = 2048;
constexpr Offset kMostTiles = 4096;

/// Where cells go on the page.
struct Geometry {
  double cell_width = 0;
  double cell_height = 0;
  double row_distance = 0;  ///< Rows of bytes are apart, rows of an array touch.

  explicit Geometry(const Picture& picture) {
    const auto columns = static_cast<double>(picture.columns);
    const auto rows = static_cast<double>(picture.rows);
    if (picture.is_array) {
      cell_width = cell_height = std::min(kLargestCell, kSide / std::max(columns, rows));
      if (picture.rows == 1) cell_height = kLargestCell;
      row_distance = cell_height;
    } else {
      cell_width = std::min(kLargestCell, 1.25 * kSide / columns);
      cell_height = 22;
      row_distance = 30;
    }
  }

  [[nodiscard]] Point corner(Offset row, Offset column) const {
    return {kLeft + static_cast<double>(column) * cell_width, kTop + static_cast<double>(row) * row_distance};
  }
};

/// How many cells lie between two ticks: at least `least`, and a round number of what the axis counts.
Offset tick_distance(const Axis& axis, double least) {
  Offset distance = 1;
  for (int i = 0; static_cast<double>(distance) < least; ++i) {
    // Single entries are counted in tens, larger cells mostly stand for powers of two: 1 2 5 10 ... or 1 2 4 8 ...
    distance = axis.step != 1 ? distance * 2 : i % 3 == 1 ? distance / 2 * 5 : distance * 2;
  }
  return distance;
}

class LayoutDrawing {
 public:
  LayoutDrawing(const layout::Partition& partition, const Picture& picture)
      : partition_(partition),
        picture_(picture),
        geometry_(picture),
        title_(layout::print(partition)),
        shown_title_(shorten(title_, kTitleCharacters)),
        right_(geometry_.corner(0, picture.columns).x),
        bottom_(geometry_.corner(picture.rows, 0).y),
        svg_(page_width(), page_height(), title_) {}

  Result<std::string> draw() && {
    svg_.text({kLeft, 24}, shown_title_, {.size = 13, .is_code = true});
    draw_cells();
    draw_axes();
    WEIR_TRY(const bool is_numbered, draw_numbers());
    if (!is_numbered) draw_tile_order();
    WEIR_RETURN_IF_ERROR(draw_legend());
    svg_.text({kLeft, bottom_ + 22}, describe(picture_), {.size = 11, .color = "#444444"});
    return std::move(svg_).finish();
  }

 private:
  [[nodiscard]] double page_width() const {
    const double title_width = kLeft + 8 * static_cast<double>(shown_title_.size()) + 16;
    return std::max({right_ + kLegendWidth, title_width, kLeft + 420});
  }
  [[nodiscard]] double page_height() const {
    const auto entries = static_cast<double>(std::min(partition_.element_count(), kLegendEntries) + 3);
    return std::max(bottom_ + kBottom, kTop + 18 * entries + 10);
  }

  [[nodiscard]] Rgb color_of(Offset owner) const {
    if (owner == kSeveral) return kSeveralColor;
    return owner < 0 ? kNobodyColor : element_color(owner, partition_.element_count());
  }

  /// One path a colour: runs of equal cells, and equal runs below each other, are one rectangle.
  void draw_cells() {
    std::map<Offset, std::string> paths;
    std::vector<Run> open;
    for (Offset row = 0; row <= picture_.rows; ++row) {
      std::vector<Run> runs = row < picture_.rows ? runs_of(row) : std::vector<Run>();
      for (const Run& old : open) {
        const auto same = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
          return run.owner == old.owner && run.first == old.first && run.end == old.end;
        });
        if (same != runs.end() && picture_.is_array) {
          same->row = old.row;
        } else {
          paths[old.owner] += rectangle_of(old, row);
        }
      }
      open = std::move(runs);
    }
    for (const auto& [owner, path] : paths) {
      if (owner == kOutside) continue;
      const std::string_view edge = owner == kNobody && !picture_.is_array ? "#bbbbbb" : "#ffffff";
      svg_.path(path, concat("fill=\"", to_hex(color_of(owner)), "\" stroke=\"", edge, "\" stroke-width=\"0.6\""));
    }
    if (picture_.is_array) svg_.frame({kLeft, kTop}, {right_ - kLeft, bottom_ - kTop});
  }

  struct Run {
    Offset owner;
    Offset row;  ///< Where it started.
    Offset first;
    Offset end;
  };

  [[nodiscard]] std::vector<Run> runs_of(Offset row) const {
    std::vector<Run> runs;
    for (Offset column = 0; column < picture_.columns; ++column) {
      const Offset owner = picture_.at(row, column);
      if (runs.empty() || runs.back().owner != owner) runs.push_back({owner, row, column, column});
      runs.back().end = column + 1;
    }
    return runs;
  }

  [[nodiscard]] std::string rectangle_of(const Run& run, Offset end_row) const {
    const double gap = geometry_.row_distance - geometry_.cell_height;
    const Point corner = geometry_.corner(run.row, run.first);
    const Point end = geometry_.corner(end_row, run.end);
    return rectangle_path(corner, {end.x - corner.x, end.y - corner.y - gap});
  }

  void draw_axes() {
    const SvgText label{.size = 10, .anchor = "middle", .color = "#444444"};
    const auto digits = static_cast<double>(concat(picture_.columns * picture_.column_axis.step).size());
    const Offset every = tick_distance(picture_.column_axis, (6.5 * digits + 8) / geometry_.cell_width);
    for (Offset column = 0; column < picture_.columns; column += every) {
      const double x = geometry_.corner(0, column).x + (picture_.column_axis.step == 1 ? geometry_.cell_width / 2 : 0);
      svg_.line({x, kTop - 4}, {x, kTop});
      svg_.text({x, kTop - 7}, concat(column * picture_.column_axis.step), label);
    }
    const auto name = [](const Axis& axis) { return axis.dimension ? concat("dimension ", *axis.dimension) : ""; };
    svg_.text({kLeft, kTop - 22},
              picture_.is_array ? name(picture_.column_axis) + " (across)" +
                                      (picture_.row_axis.dimension ? ", " + name(picture_.row_axis) + " (down)" : "")
                                : "file offset = label of the row + label of the column",
              {.size = 10, .color = "#444444"});
    if (!picture_.is_array || picture_.row_axis.dimension) draw_row_labels();
  }

  void draw_row_labels() {
    const Offset every = tick_distance(picture_.row_axis, 18 / geometry_.row_distance);
    for (Offset row = 0; row < picture_.rows; row += every) {
      const bool is_middle = picture_.row_axis.step == 1 || !picture_.is_array;
      const double y = geometry_.corner(row, 0).y + (is_middle ? geometry_.cell_height / 2 : 0);
      svg_.line({kLeft - 4, y}, {kLeft, y});
      svg_.text({kLeft - 7, y + 3.5}, concat(picture_.row_axis.first + row * picture_.row_axis.step),
                {.size = 10, .anchor = "end", .color = "#444444"});
    }
  }

  /// The file offset of a cell that stands for one entry or byte.
  [[nodiscard]] Offset file_offset(Offset row, Offset column) const {
    if (!picture_.is_array) return picture_.row_axis.first + row * picture_.row_axis.step + column;
    const ArrayShape array = *array_shape(partition_);
    Offset x = partition_.disp();
    for (std::size_t i = 0; i < picture_.slice.size(); ++i) {
      const Offset index = picture_.slice[i] ? *picture_.slice[i] : picture_.row_axis.dimension == i ? row : column;
      x += index * array.strides[i];
    }
    return x;
  }

  /// Writes into each cell its place in its element; false if there is no room.
  Result<bool> draw_numbers() {
    const bool is_detailed = picture_.column_axis.step == 1 && (picture_.row_axis.step == 1 || !picture_.is_array);
    if (!is_detailed || picture_.rows * picture_.columns > kMostNumberedCells) return false;
    const auto array = array_shape(partition_);
    const Offset unit = array ? array->elem : 1;
    struct Number {
      Point at;
      std::string digits;
      Offset owner;
    };
    std::vector<Number> numbers;
    std::size_t longest = 1;
    std::map<Offset, layout::Element> elements;
    for (Offset row = 0; row < picture_.rows; ++row) {
      for (Offset column = 0; column < picture_.columns; ++column) {
        const Offset owner = picture_.at(row, column);
        if (owner < 0) continue;
        if (!elements.contains(owner)) {
          WEIR_TRY(elements[owner], partition_.element(owner));
        }
        const auto y = elements[owner].map(file_offset(row, column));
        if (!y) continue;
        const Point corner = geometry_.corner(row, column);
        numbers.push_back(
            {{corner.x + geometry_.cell_width / 2, corner.y + geometry_.cell_height / 2}, concat(*y / unit), owner});
        longest = std::max(longest, numbers.back().digits.size());
      }
    }
    const double size = std::min(10.0, 0.9 * geometry_.cell_width / (0.6 * static_cast<double>(longest)));
    if (size < kSmallestText) return false;
    for (const Number& number : numbers) {
      svg_.text({number.at.x, number.at.y + 0.36 * size}, number.digits,
                {.size = size, .anchor = "middle", .color = text_color(number.owner)});
    }
    return true;
  }

  [[nodiscard]] std::string_view text_color(Offset owner) const {
    return is_light(color_of(owner)) ? "#000000" : "#ffffff";
  }

  /// The place of each tile in its element; of a single element also a thin line through its tiles in that order.
  void draw_tile_order() {
    const auto* tiles = std::get_if<layout::Tiles>(&partition_.description());
    if (tiles == nullptr) return;
    const TileGrid grid(*tiles, picture_);
    if (grid.rows * grid.columns > kMostTiles) return;
    std::map<Offset, std::map<Offset, Point>> centres;  // by element, by number of the tile
    for (Offset row = 0; row < grid.rows; ++row) {
      for (Offset column = 0; column < grid.columns; ++column) {
        const Offset number = grid.first + row * grid.row_step + column * grid.column_step;
        const Point centre{centre_along(picture_.column_axis, column, grid.tile_columns, geometry_.cell_width, kLeft),
                           centre_along(picture_.row_axis, row, grid.tile_rows, geometry_.cell_height, kTop)};
        centres[number % tiles->over][number] = centre;
      }
    }
    const double tile_width =
        static_cast<double>(grid.tile_columns) / static_cast<double>(picture_.column_axis.step) * geometry_.cell_width;
    for (const auto& [owner, tiles_of_owner] : centres) {
      if (!picture_.shows(owner)) continue;
      if (picture_.is_restricted) draw_tile_line(owner, tiles_of_owner);
      if (tile_width < 18) continue;
      for (const auto& [number, centre] : tiles_of_owner) {
        svg_.text({centre.x, centre.y + (picture_.is_restricted ? -3 : 3)}, concat(number / tiles->over),
                  {.size = 9, .anchor = "middle", .color = text_color(owner)});
      }
    }
  }

  void draw_tile_line(Offset owner, const std::map<Offset, Point>& centres) {
    std::string path;
    for (const auto& [number, centre] : centres) {
      path += concat(path.empty() ? "M" : "L", svg_number(centre.x), " ", svg_number(centre.y));
    }
    // Visible on the element's colour and on the white between its tiles.
    const std::string_view color = is_light(color_of(owner)) ? "#000000" : "#555555";
    svg_.path(path, concat("fill=\"none\" stroke=\"", color, "\" stroke-width=\"1\" stroke-linejoin=\"round\""));
  }

  /// The tiles that a picture cuts through.
  struct TileGrid {
    Offset rows = 1;
    Offset columns = 1;
    Offset tile_rows = 1;
    Offset tile_columns = 1;
    Offset first = 0;  ///< Number of the tile in the upper left corner.
    Offset row_step = 0;
    Offset column_step = 0;

    TileGrid(const layout::Tiles& tiles, const Picture& picture) {
      Offset step = 1;
      for (std::size_t i = 0; i < tiles.shape.size(); ++i) {
        const std::size_t dimension = tiles.order == layout::ArrayOrder::kC ? tiles.shape.size() - 1 - i : i;
        const Offset count = ceil_div(tiles.shape[dimension], tiles.tile[dimension]);
        if (picture.slice[dimension]) {
          first += *picture.slice[dimension] / tiles.tile[dimension] * step;
        } else if (picture.column_axis.dimension == dimension) {
          columns = count;
          tile_columns = tiles.tile[dimension];
          column_step = step;
        } else {
          rows = count;
          tile_rows = tiles.tile[dimension];
          row_step = step;
        }
        step *= count;
      }
    }
  };

  static double centre_along(const Axis& axis, Offset tile, Offset length, double cell, double origin) {
    if (!axis.dimension) return origin + cell / 2;
    const Offset first = tile * length;
    const Offset end = std::min(first + length, axis.extent);
    return origin + static_cast<double>(first + end) / 2 / static_cast<double>(axis.step) * cell;
  }

  Status draw_legend() {
    const Offset shown = std::min(partition_.element_count(), kLegendEntries);
    double y = kTop;
    for (Offset i = 0; i < shown; ++i) {
      if (picture_.is_restricted && !picture_.shows(i)) continue;
      WEIR_TRY(const layout::Element element, partition_.element(i));
      draw_entry(y, i, concat("element ", i, ": ", element.size(), element.size() == 1 ? " byte" : " bytes"));
    }
    if (shown < partition_.element_count() && !picture_.is_restricted) {
      svg_.text({right_ + 20, y + 10}, concat("and ", partition_.element_count() - shown, " more elements"), {});
      y += 18;
    }
    if (picture_.shows(kSeveral)) draw_entry(y, kSeveral, "several elements");
    if (picture_.shows(kNobody)) draw_entry(y, kNobody, picture_.is_restricted ? "not on this element" : "no element");
    return Status::ok();
  }

  void draw_entry(double& y, Offset owner, const std::string& label) {
    svg_.rectangle({right_ + 20, y}, {12, 12}, color_of(owner));
    svg_.frame({right_ + 20, y}, {12, 12});
    svg_.text({right_ + 38, y + 10}, label, {});
    y += 18;
  }

  const layout::Partition& partition_;
  const Picture& picture_;
  const Geometry geometry_;
  const std::string title_;
  const std::string shown_title_;
  const double right_;
  const double bottom_;
  SvgWriter svg_;
};

}  // namespace

Result<std::string> draw_layout_svg(const layout::Partition& partition, const Picture& picture) {
  return LayoutDrawing(partition, picture).draw();
}

Status write_file(const std::string& name, const std::string& text, Console& console) {
  if (name == "-") {
    console.out << text;
    return Status::ok();
  }
  std::ofstream file(name, std::ios::binary);
  file << text;
  file.close();
  if (!file) return Status{ErrorCode::kIoError, concat("cannot write the picture to file '", name, "'")};
  return Status::ok();
}

}  // namespace weir::cli::internal
