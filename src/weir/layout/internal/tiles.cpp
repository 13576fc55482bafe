#include <weir/layout/internal/tiles.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <weir/layout/internal/construct.h>

// Tiles are numbered row by row; element e holds those whose number is e modulo `over`.
//
// Look at one dimension of the tile grid, with R tiles in each of its rows (R: product of the grid's extents further
// inside).  A row i then starts at number i*R, and its tiles for residue q are those that the dimensions further inside
// number q - i*R modulo `over`.  So what a row contributes depends on i only modulo c = over / gcd(R, over): c rows
// make a cycle that repeats as a family.  What is left are rows at the end that make no whole cycle, and the row that
// the array's edge clips.
// Order=F is the mirror image: all dimensions in reverse.

namespace weir::layout::internal {
namespace {

struct Dimension {
  Offset tile = 1;       // at most the array's extent
  Offset step = 1;       // bytes from one index to the next
  Offset below = 1;      // tiles in one row: R above
  Offset full_rows = 1;  // rows of whole tiles
  Offset clipped = 0;    // indices in the row that the edge clips; 0: there is none

  [[nodiscard]] Offset rows() const noexcept { return full_rows + (clipped > 0 ? 1 : 0); }
  [[nodiscard]] Offset row_bytes() const noexcept { return tile * step; }
};

class Builder {
 public:
  explicit Builder(const Tiles& tiles) : elem_(tiles.elem), over_(tiles.over), dimensions_(tiles.shape.size()) {
    const std::size_t rank = dimensions_.size();
    Offset step = tiles.elem;
    Offset below = 1;
    for (std::size_t d = rank; d-- > 0;) {
      const std::size_t source = tiles.order == ArrayOrder::kC ? d : rank - 1 - d;
      Dimension& dimension = dimensions_[d];
      const Offset extent = tiles.shape[source];
      dimension.tile = std::min(tiles.tile[source], extent);
      dimension.step = step;
      dimension.below = below;
      dimension.full_rows = extent / dimension.tile;
      dimension.clipped = extent % dimension.tile;
      step *= extent;
      below *= dimension.rows();
    }
    lengths_.resize(rank);
  }

  /// The tiles of dimensions d, d+1, ... whose number is `residue` modulo over.
  FallsSet grid(std::size_t d, Offset residue) {
    if (d == dimensions_.size()) return residue == 0 ? tile() : FallsSet{};
    const Dimension& dimension = dimensions_[d];
    if (residue / dimension.below >= dimension.rows()) return {};
    lengths_[d] = dimension.tile;
    FallsSet out = full_rows(d, residue);
    if (dimension.clipped > 0) {
      lengths_[d] = dimension.clipped;
      FallsSet row = grid(d + 1, residue_in_row(d, residue, dimension.full_rows));
      shift(row, dimension.full_rows * dimension.row_bytes());
      append(out, std::move(row));
    }
    return out;
  }

  [[nodiscard]] bool is_too_complex() const noexcept { return nodes_ > kMaxNodes; }

 private:
  /// One tile of the lengths at hand, at offset 0.
  FallsSet tile() {
    FallsSet out{Falls{.left = 0, .right = elem_ - 1, .inner = {}}};
    for (std::size_t d = dimensions_.size(); d-- > 0;) out = repeat(std::move(out), dimensions_[d].step, lengths_[d]);
    nodes_ += node_count(out);
    return out;
  }

  [[nodiscard]] Offset residue_in_row(std::size_t d, Offset residue, Offset row) const noexcept {
    return floor_mod(residue - (dimensions_[d].below % over_) * (row % over_) % over_, over_);
  }

  FallsSet full_rows(std::size_t d, Offset residue) {
    const Dimension& dimension = dimensions_[d];
    const Offset cycle = over_ / std::gcd(dimension.below, over_);
    if (over_ % dimension.below == 0) return one_row_per_cycle(d, residue, cycle);
    const Offset cycles = dimension.full_rows / cycle;
    FallsSet out;
    if (cycles > 0) out = repeat(rows(d, residue, cycle), cycle * dimension.row_bytes(), cycles);
    FallsSet rest = rows(d, residue, dimension.full_rows % cycle);
    shift(rest, cycles * cycle * dimension.row_bytes());
    append(out, std::move(rest));
    return out;
  }

  /// Where the rows of a cycle share out the residues, only one of them holds tiles of this element.
  FallsSet one_row_per_cycle(std::size_t d, Offset residue, Offset cycle) {
    const Dimension& dimension = dimensions_[d];
    const Offset first = residue / dimension.below;
    if (first >= dimension.full_rows) return {};
    const Offset count = (dimension.full_rows - 1 - first) / cycle + 1;
    FallsSet out = repeat(grid(d + 1, residue % dimension.below), count > 1 ? cycle * dimension.row_bytes() : 0, count);
    shift(out, first * dimension.row_bytes());
    return out;
  }

  /// The first `count` rows.
  FallsSet rows(std::size_t d, Offset residue, Offset count) {
    const Dimension& dimension = dimensions_[d];
    SequenceBuilder out;
    const auto add_row = [&](Offset row, Offset row_residue) {
      FallsSet tiles = grid(d + 1, row_residue);
      shift(tiles, row * dimension.row_bytes());
      out.add(std::move(tiles));
    };
    if (dimension.below < over_) {  // most rows may hold nothing: go from tile to tile instead
      for (Offset n = residue; n < count * dimension.below && !is_too_complex(); n += over_) {
        add_row(n / dimension.below, n % dimension.below);
      }
    } else {
      for (Offset row = 0; row < count && !is_too_complex(); ++row) add_row(row, residue_in_row(d, residue, row));
    }
    return out.finish();
  }

  Offset elem_;
  Offset over_;
  std::vector<Dimension> dimensions_;
  std::vector<Offset> lengths_;  // of the tile at hand, by dimension
  Offset nodes_ = 0;             // made so far
};

}  // namespace

Result<FallsSet> tiles_of(const Tiles& tiles, Offset index) {
  Builder builder(tiles);
  FallsSet set = builder.grid(0, index);
  if (!builder.is_too_complex()) return set;
  return too_complex(concat("tiles: element ", index, " of ", tiles.over, " needs more than ", kMaxNodes,
                            " FALLS: choose `over` to divide, or to be divided by, the number of tiles in a row"));
}

}  // namespace weir::layout::internal
