#pragma once

#include <string>

#include <weir/cli/internal/picture.h>

namespace weir::cli::internal {

struct TextStyle {
  Offset width = 80;
  bool color = false;
  bool ascii = false;  ///< Draw trees without box characters.
};

/// Columns of cells that fit a text picture this wide.
Offset text_columns(const layout::Partition& partition, Offset width);

/// The picture as lines of text, with indices or offsets at its edges and what its signs mean below.
std::string render_text(const Picture& picture, Offset element_count, const TextStyle& style);

/// The nested FALLS of an element as a tree, one FALLS a line, at most `most_lines`.
std::string render_tree(const layout::FallsSet& set, const TextStyle& style, int most_lines = 24);

}  // namespace weir::cli::internal
