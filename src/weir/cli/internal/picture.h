#pragma once

// A picture of a layout: a grid of cells, each with the element that holds what the cell stands for.
//
// Arrays (hpf, tiles) are drawn as a plane of the array, everything else as the bytes of the file, row after row.
// Large ones are reduced: a cell stands for several entries (bytes), and one that lies on several elements says so.
// Which cells those are follows from the structure, exactly; nothing is sampled.

#include <optional>
#include <string>
#include <vector>

#include <weir/layout/partition.h>

namespace weir::cli::internal {

inline constexpr Offset kNobody = -1;   ///< No element holds the cell.
inline constexpr Offset kSeveral = -2;  ///< Several do, or one does in part.
inline constexpr Offset kOutside = -3;  ///< The cell lies beyond the end of the picture.

/// What the rows or columns of a picture count.
struct Axis {
  std::optional<std::size_t> dimension;  ///< Of the array; nothing for bytes and for the missing axis of a line.
  Offset first = 0;
  Offset step = 1;    ///< What one cell stands for.
  Offset extent = 1;  ///< What all cells stand for.
};

struct Picture {
  bool is_array = false;
  bool is_restricted = false;  ///< Shows one element only.
  Offset rows = 0;
  Offset columns = 0;
  std::vector<Offset> cells;  ///< Element indices or one of the constants above; row after row.
  Axis row_axis;              ///< Bytes: `step` is what a row stands for.
  Axis column_axis;
  std::vector<std::optional<Offset>> slice;  ///< Array: the fixed indices; nothing for those along an axis.

  [[nodiscard]] Offset at(Offset row, Offset column) const {
    return cells[static_cast<std::size_t>(row * columns + column)];
  }
  [[nodiscard]] bool shows(Offset owner) const;
};

struct PictureOptions {
  Offset max_columns = 64;
  Offset max_rows = 40;
  Offset periods = 2;             ///< Of a picture of bytes.
  std::optional<Offset> element;  ///< Cells of other elements count as nobody's.
  std::string slice;              ///< "3,*,*": the plane of an n-D array; empty: the last two dimensions at index 0.
};

/// \error kInvalidArgument for a slice that does not fit the array; what Partition::element and owner say.
Result<Picture> draw(const layout::Partition& partition, const PictureOptions& options);

/// The shape of the array, and the file offset of an entry relative to the displacement.
struct ArrayShape {
  std::vector<Offset> shape;
  std::vector<Offset> strides;  ///< In bytes.
  Offset elem = 1;
};

/// Nothing unless the layout is one of an array.
std::optional<ArrayShape> array_shape(const layout::Partition& partition);

/// In words: what a cell stands for, which slice this is.
std::string describe(const Picture& picture);

}  // namespace weir::cli::internal
