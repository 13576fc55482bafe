#include <weir/cli/internal/text_picture.h>

#include <algorithm>

#include <fmt/format.h>

#include <weir/cli/internal/palette.h>

namespace weir::cli::internal {
namespace {

constexpr std::string_view kReset = "\x1b[0m";
constexpr std::size_t kLabelWidth = 4;  // at least, so that small pictures look alike

char sign_of(Offset owner) {
  switch (owner) {
    case kNobody: return '.';
    case kSeveral: return '#';
    case kOutside: return ' ';
    default: return element_character(owner);
  }
}

std::string color_of(Offset owner, Offset element_count) {
  if (owner < 0) return "";
  const Rgb color = element_color(owner, element_count);
  return fmt::format("\x1b[48;5;{}m\x1b[38;5;{}m", to_terminal_color(color), is_light(color) ? 16 : 231);
}

/// Two characters a cell look square; one where two do not fit.
int cell_width(const Picture& picture, Offset room) { return picture.is_array && picture.columns * 2 <= room ? 2 : 1; }

std::size_t label_width(const Picture& picture) {
  const Offset last = picture.row_axis.first + (picture.rows - 1) * picture.row_axis.step;
  return std::max(kLabelWidth, concat(last).size());
}

/// The indices above the columns, as many as there is room for.
std::string header(const Picture& picture, std::size_t label, int width) {
  const Offset last = (picture.columns - 1) * picture.column_axis.step;
  const auto digits = static_cast<Offset>(concat(last).size());
  const Offset every = picture.columns <= 1 ? 1 : ceil_div(digits + 1, width);
  std::string line(label + 2, ' ');
  for (Offset column = 0; column < picture.columns; column += every) {
    // Right-aligned on its cell.
    const auto end = label + 2 + static_cast<std::size_t>((column + 1) * width);
    const std::string index = concat(column * picture.column_axis.step);
    if (end < line.size() + index.size() && column > 0) continue;
    line.resize(std::max(end, line.size() + index.size()) - index.size(), ' ');
    line += index;
  }
  return line + "\n";
}

std::string row_text(const Picture& picture, Offset row, Offset element_count, int width, bool color) {
  std::string line;
  std::string current;
  for (Offset column = 0; column < picture.columns; ++column) {
    const Offset owner = picture.at(row, column);
    if (owner == kOutside) break;
    if (color) {
      const std::string wanted = color_of(owner, element_count);
      if (wanted != current) line += (current.empty() ? "" : std::string(kReset)) + wanted;
      current = wanted;
    }
    if (width == 2) line += ' ';
    line += sign_of(owner);
  }
  if (!current.empty()) line += kReset;
  return line;
}

std::string legend(const Picture& picture, Offset element_count) {
  std::string text;
  if (picture.shows(kNobody)) text += picture.is_restricted ? "; . not on this element" : "; . on no element";
  if (picture.shows(kSeveral)) text += "; # several elements";
  if (element_count > kElementCharacters) {
    text += "; 0-9 a-z A-Z stand for the elements, modulo 62";
  } else if (element_count > 10) {
    text += concat("; 0-9 a-z A-Z stand for elements 0 to ", element_count - 1);
  }
  return text;
}

struct TreeSigns {
  std::string_view middle;
  std::string_view last;
  std::string_view line;
  std::string_view space;
};
constexpr TreeSigns kBoxSigns{"├─ ", "└─ ", "│  ", "   "};
constexpr TreeSigns kAsciiSigns{"|- ", "`- ", "|  ", "   "};

std::string label_of(const layout::Falls& falls) {
  const std::string stride = falls.count == 1 ? "-" : concat(falls.stride);
  std::string text = concat("(", falls.left, ",", falls.right, ",", stride, ",", falls.count, ")  ");
  const Offset length = falls.block_length();
  text += falls.count == 1 ? concat(length, length == 1 ? " byte" : " bytes", " at ", falls.left)
                           : concat(falls.count, " blocks of ", length, length == 1 ? " byte" : " bytes", " every ",
                                    falls.stride, " from ", falls.left);
  return text;
}

class TreeWriter {
 public:
  TreeWriter(const TreeSigns& signs, int most_lines) : signs_(signs), lines_left_(most_lines) {}

  void write(const layout::FallsSet& set, const std::string& indent) {
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (lines_left_-- <= 0) {
        if (lines_left_ == -1) text_ += concat(indent, signs_.last, "... and more\n");
        return;
      }
      const bool is_last = i + 1 == set.size();
      text_ += concat(indent, is_last ? signs_.last : signs_.middle, label_of(set[i]), "\n");
      write(set[i].inner, concat(indent, is_last ? signs_.space : signs_.line));
    }
  }

  std::string take() { return std::move(text_); }

 private:
  const TreeSigns& signs_;
  int lines_left_;
  std::string text_;
};

}  // namespace

Offset text_columns(const layout::Partition& partition, Offset width) {
  // The largest label of two periods, which is what is mostly shown.
  Offset last = partition.disp() + 2 * std::min(partition.period(), kMaxBytes / 4);
  if (const auto array = array_shape(partition)) last = *std::max_element(array->shape.begin(), array->shape.end());
  const Offset label = 2 + static_cast<Offset>(std::max(kLabelWidth, concat(last).size()));
  return std::max<Offset>(width - label, 8);
}

std::string render_text(const Picture& picture, Offset element_count, const TextStyle& style) {
  const std::size_t label = label_width(picture);
  const int width = cell_width(picture, style.width - static_cast<Offset>(label) - 2);
  std::string text;
  if (picture.is_array) text += header(picture, label, width);
  for (Offset row = 0; row < picture.rows; ++row) {
    const bool has_label = picture.row_axis.dimension || !picture.is_array;
    const std::string index = has_label ? concat(picture.row_axis.first + row * picture.row_axis.step) : "";
    text += fmt::format("{:>{}}  {}\n", index, label, row_text(picture, row, element_count, width, style.color));
  }
  return text + concat("(", describe(picture), legend(picture, element_count), ")\n");
}

std::string render_tree(const layout::FallsSet& set, const TextStyle& style, int most_lines) {
  TreeWriter writer(style.ascii ? kAsciiSigns : kBoxSigns, most_lines);
  writer.write(set, "");
  return writer.take();
}

}  // namespace weir::cli::internal
