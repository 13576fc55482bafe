#pragma once

// Vector pictures fit for print: text stays text, equal neighbours are one shape, colours suit the colour-blind.

#include <string>
#include <vector>

#include <weir/cli/internal/picture.h>
#include <weir/layout/mapping.h>

namespace weir::cli::internal {

struct Console;

/// A picture of a layout with its title, axes and legend.  Where there is room the order of the elements is shown: the
/// place of each entry in its element, or for tiles a line through them in the order they are stored in.
Result<std::string> draw_layout_svg(const layout::Partition& partition, const Picture& picture);

/// Two elements, the file between them, and what they have in common.
struct PieceDrawing {
  std::string a_title;
  std::string b_title;
  layout::Range file;
  layout::Range a;
  layout::Range b;
  std::vector<layout::Piece> pieces;
};
inline constexpr Offset kMostDrawnPieces = 256;

std::string draw_pieces_svg(const PieceDrawing& drawing);

/// Writes `text` to a file; "-" is standard output.
Status write_file(const std::string& name, const std::string& text, Console& console);

}  // namespace weir::cli::internal
