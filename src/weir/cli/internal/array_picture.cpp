#include <weir/cli/internal/array_picture.h>

#include <algorithm>

#include <weir/cli/internal/command.h>

namespace weir::cli::internal {
namespace {

using layout::ArrayOrder;
using layout::Dist;

std::vector<Offset> byte_strides(const std::vector<Offset>& shape, Offset elem, ArrayOrder order) {
  std::vector<Offset> strides(shape.size());
  Offset stride = elem;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t dimension = order == ArrayOrder::kC ? shape.size() - 1 - i : i;
    strides[dimension] = stride;
    stride *= shape[dimension];  // cannot overflow: the array fits 2^62 bytes
  }
  return strides;
}

Offset hpf_block(const layout::Hpf& hpf, std::size_t dimension) {
  const Dist& dist = hpf.dist[dimension];
  if (dist.kind == Dist::Kind::kWhole || hpf.grid[dimension] == 1) return 0;
  if (dist.width != 0) return dist.width;
  return dist.kind == Dist::Kind::kBlock ? ceil_div(hpf.shape[dimension], hpf.grid[dimension]) : 1;
}

std::vector<Offset> hpf_blocks(const layout::Hpf& hpf) {
  std::vector<Offset> blocks;
  for (std::size_t i = 0; i < hpf.shape.size(); ++i) blocks.push_back(hpf_block(hpf, i));
  return blocks;
}

/// Tiles that follow each other along a dimension differ in number by a fixed step; where the number of elements
/// divides that step, all of them have one owner.
std::vector<Offset> tile_blocks(const layout::Tiles& tiles) {
  std::vector<Offset> blocks(tiles.shape.size());
  Offset step = 1;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t dimension = tiles.order == ArrayOrder::kC ? blocks.size() - 1 - i : i;
    blocks[dimension] = step % tiles.over == 0 ? 0 : tiles.tile[dimension];
    step *= ceil_div(tiles.shape[dimension], tiles.tile[dimension]);
  }
  return blocks;
}

/// How many indices a cell stands for: few enough cells, and cell edges on block edges if that costs less than twice
/// the detail.
Offset choose_step(Offset extent, Offset most_cells, Offset block) {
  const Offset least = ceil_div(extent, std::max<Offset>(most_cells, 1));
  if (least <= 1 || block == 0) return least;
  for (Offset parts = block / least; parts >= 1 && block / parts <= 2 * least; --parts) {
    if (block % parts == 0) return block / parts;
  }
  return least;
}

Result<std::vector<std::string>> split_slice(const std::string& text, std::size_t rank) {
  std::vector<std::string> parts(1);
  for (const char character : text) {
    if (character == ',') {
      parts.emplace_back();
    } else if (character != ' ') {
      parts.back() += character;
    }
  }
  if (parts.size() == rank) return parts;
  return invalid_argument(
      concat("slice '", text, "' has ", parts.size(), " indices, but the array has ", rank, " dimensions"));
}

/// The fixed index of each dimension; nothing for the one or two that are drawn.
Result<std::vector<std::optional<Offset>>> parse_slice(const std::string& text, const std::vector<Offset>& shape) {
  std::vector<std::optional<Offset>> slice(shape.size());
  if (text.empty()) {
    for (std::size_t i = 0; i + 2 < shape.size(); ++i) slice[i] = 0;
    return slice;
  }
  WEIR_TRY(const std::vector<std::string> parts, split_slice(text, shape.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == "*") continue;
    WEIR_TRY(slice[i], parse_size(parts[i]));
    if (*slice[i] >= shape[i]) {
      return out_of_range(
          concat("slice '", text, "': index ", *slice[i], " is outside dimension ", i, " of ", shape[i]));
    }
  }
  const auto free = std::count(slice.begin(), slice.end(), std::nullopt);
  if (free == 1 || free == 2) return slice;
  return invalid_argument(concat("slice '", text, "' leaves ", free, " dimensions free (*): a picture has one or two"));
}

bool is_one_block(Offset first, Offset end, Offset block) { return block == 0 || first / block == (end - 1) / block; }

class ArrayDrawer {
 public:
  ArrayDrawer(const layout::Partition& partition, const PictureOptions& options)
      : partition_(partition), options_(options), array_(*array_shape(partition)), blocks_(owner_blocks(partition)) {}

  Result<Picture> draw() {
    WEIR_TRY(picture_.slice, parse_slice(options_.slice, array_.shape));
    picture_.is_array = true;
    choose_axes();
    picture_.rows = ceil_div(picture_.row_axis.extent, picture_.row_axis.step);
    picture_.columns = ceil_div(picture_.column_axis.extent, picture_.column_axis.step);
    for (Offset row = 0; row < picture_.rows; ++row) {
      for (Offset column = 0; column < picture_.columns; ++column) {
        WEIR_TRY(const Offset owner, cell_owner(row, column));
        picture_.cells.push_back(owner);
      }
    }
    return std::move(picture_);
  }

 private:
  void choose_axes() {
    base_ = partition_.disp();
    for (std::size_t i = 0; i < array_.shape.size(); ++i) {
      if (picture_.slice[i]) {
        base_ += *picture_.slice[i] * array_.strides[i];
      } else {
        // The later dimension runs across, the earlier one down.
        if (picture_.column_axis.dimension) picture_.row_axis = picture_.column_axis;
        picture_.column_axis = Axis{i, 0, 1, array_.shape[i]};
      }
    }
    set_step(picture_.column_axis, options_.max_columns);
    set_step(picture_.row_axis, options_.max_rows);
  }

  void set_step(Axis& axis, Offset most_cells) const {
    if (axis.dimension) axis.step = choose_step(axis.extent, most_cells, blocks_[*axis.dimension]);
  }

  [[nodiscard]] bool is_one_block_along(const Axis& axis, Offset cell) const {
    if (!axis.dimension) return true;
    const Offset first = cell * axis.step;
    return is_one_block(first, std::min(first + axis.step, axis.extent), blocks_[*axis.dimension]);
  }

  [[nodiscard]] Offset distance(const Axis& axis, Offset cell) const {
    return axis.dimension ? cell * axis.step * array_.strides[*axis.dimension] : 0;
  }

  [[nodiscard]] Result<Offset> cell_owner(Offset row, Offset column) const {
    if (!is_one_block_along(picture_.row_axis, row) || !is_one_block_along(picture_.column_axis, column)) {
      return kSeveral;
    }
    const Offset x = base_ + distance(picture_.row_axis, row) + distance(picture_.column_axis, column);
    WEIR_TRY(const std::optional<Offset> owner, partition_.owner(x));
    return owner.value_or(kNobody);
  }

  const layout::Partition& partition_;
  const PictureOptions& options_;
  const ArrayShape array_;
  const std::vector<Offset> blocks_;
  Picture picture_;
  Offset base_ = 0;
};

}  // namespace

std::optional<ArrayShape> array_shape(const layout::Partition& partition) {
  const auto make = [](const auto& description) {
    return ArrayShape{description.shape, byte_strides(description.shape, description.elem, description.order),
                      description.elem};
  };
  if (const auto* hpf = std::get_if<layout::Hpf>(&partition.description())) return make(*hpf);
  if (const auto* tiles = std::get_if<layout::Tiles>(&partition.description())) return make(*tiles);
  return std::nullopt;
}

std::vector<Offset> owner_blocks(const layout::Partition& partition) {
  if (const auto* hpf = std::get_if<layout::Hpf>(&partition.description())) return hpf_blocks(*hpf);
  return tile_blocks(std::get<layout::Tiles>(partition.description()));
}

Result<Picture> draw_array(const layout::Partition& partition, const PictureOptions& options) {
  return ArrayDrawer(partition, options).draw();
}

}  // namespace weir::cli::internal
