#include <weir/cli/internal/picture.h>

#include <algorithm>
#include <numeric>

#include <weir/cli/internal/array_picture.h>

namespace weir::cli::internal {
namespace {

/// Smallest power of two that is at least `number`.
Offset round_up_to_power_of_two(Offset number) {
  Offset power = 1;
  while (power < number) power *= 2;
  return power;
}

Offset granularity(const layout::FallsSet& set) {
  Offset unit = 0;
  for (const layout::Falls& falls : set) {
    unit = std::gcd(unit, std::gcd(falls.left, falls.right + 1));
    if (falls.count > 1) unit = std::gcd(unit, falls.stride);
    unit = std::gcd(unit, granularity(falls.inner));
  }
  return unit;
}

/// A number of bytes such that elements begin and end only at multiples of it, counted from the displacement.
Offset granularity(const layout::Partition& partition) {
  if (const auto* stripe = std::get_if<layout::Stripe>(&partition.description())) return stripe->unit;
  Offset unit = partition.period();
  if (const auto* elements = std::get_if<layout::Explicit>(&partition.description())) {
    for (const layout::FallsSet& set : elements->elements) unit = std::gcd(unit, granularity(set));
  }
  return unit;
}

/// Which part of the file a picture of bytes shows, and how.
struct ByteFrame {
  Offset first = 0;
  Offset end = 0;
  Offset cell = 1;     ///< Bytes.
  Offset columns = 1;  ///< Cells.
};

/// Bytes that a cell stands for.  Short periods are drawn byte by byte; of long ones a period goes on one line if that
/// loses nothing, because elements begin and end at multiples of the cell; else as many lines as are allowed are used.
Offset choose_cell(const layout::Partition& partition, const PictureOptions& options) {
  constexpr Offset kDetailedRows = 4;
  const Offset period = partition.period();
  const Offset most_cells = options.max_columns * options.max_rows;
  if (period <= options.max_columns * std::min(kDetailedRows, options.max_rows)) return 1;
  const Offset unit = granularity(partition);
  if (period / unit <= most_cells) {
    Offset parts = 1;
    while (unit % (2 * parts) == 0 && period / unit * 2 * parts <= options.max_columns) parts *= 2;
    return unit / parts;
  }
  return round_up_to_power_of_two(ceil_div(period, most_cells));
}

ByteFrame frame_bytes(const layout::Partition& partition, const PictureOptions& options) {
  ByteFrame frame;
  const Offset period = partition.period();
  frame.cell = choose_cell(partition, options);
  // Bytes before the displacement are shown if they are few: they belong to nobody, which is worth seeing.
  const bool starts_at_zero = frame.cell == 1 && partition.disp() <= std::min(period, options.max_columns / 2);
  frame.first = starts_at_zero ? 0 : partition.disp();
  const Offset room = std::max<Offset>(kMaxBytes - partition.disp(), 1);
  const Offset period_cells = ceil_div(period, frame.cell);
  const Offset fitting = std::max<Offset>(options.max_columns * options.max_rows / period_cells, 1);
  const Offset periods = std::clamp<Offset>(options.periods, 1, std::min(fitting, std::max<Offset>(room / period, 1)));
  frame.end = partition.disp() + std::min(periods * period, room);
  const Offset total = ceil_div(frame.end - frame.first, frame.cell);
  if (total <= options.max_columns) {
    frame.columns = total;
  } else if (period_cells <= options.max_columns && period % frame.cell == 0) {
    frame.columns = options.max_columns / period_cells * period_cells;  // rows start at the same place of the period
  } else {
    frame.columns = round_up_to_power_of_two(options.max_columns + 1) / 2;
  }
  return frame;
}

/// The owner of file bytes [x, end) for explicit elements, which may overlap and leave gaps.
class ExplicitOwners {
 public:
  static Result<ExplicitOwners> create(const layout::Partition& partition) {
    ExplicitOwners owners;
    for (Offset i = 0; i < partition.element_count(); ++i) {
      WEIR_TRY(layout::Element element, partition.element(i));
      owners.elements_.push_back(std::move(element));
    }
    return owners;
  }

  [[nodiscard]] Offset find(Offset x, Offset end) const {
    Offset owner = kNobody;
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      const Offset held = elements_[i].count_below(end) - elements_[i].count_below(x);
      if (held == 0) continue;
      if (owner != kNobody || held != end - x) return kSeveral;
      owner = static_cast<Offset>(i);
    }
    return owner;
  }

 private:
  std::vector<layout::Element> elements_;
};

Offset stripe_owner(const layout::Stripe& stripe, Offset disp, Offset x, Offset end) {
  if (end <= disp) return kNobody;
  if (x < disp) return kSeveral;
  if (stripe.over == 1) return 0;
  const Offset unit = (x - disp) / stripe.unit;
  return unit == (end - 1 - disp) / stripe.unit ? unit % stripe.over : kSeveral;
}

template <typename Find>
Picture fill_bytes(const ByteFrame& frame, Find find) {
  Picture picture;
  picture.columns = frame.columns;
  picture.rows = ceil_div(ceil_div(frame.end - frame.first, frame.cell), frame.columns);
  picture.row_axis = {std::nullopt, frame.first, frame.cell * frame.columns, frame.end - frame.first};
  picture.column_axis = {std::nullopt, 0, frame.cell, frame.cell * frame.columns};
  for (Offset i = 0; i < picture.rows * picture.columns; ++i) {
    const Offset x = frame.first + i * frame.cell;
    picture.cells.push_back(x >= frame.end ? kOutside : find(x, std::min(x + frame.cell, frame.end)));
  }
  return picture;
}

Result<Picture> draw_bytes(const layout::Partition& partition, const PictureOptions& options) {
  const ByteFrame frame = frame_bytes(partition, options);
  if (const auto* stripe = std::get_if<layout::Stripe>(&partition.description())) {
    return fill_bytes(frame, [&](Offset x, Offset end) { return stripe_owner(*stripe, partition.disp(), x, end); });
  }
  WEIR_TRY(const ExplicitOwners owners, ExplicitOwners::create(partition));
  return fill_bytes(frame, [&](Offset x, Offset end) { return owners.find(x, end); });
}

std::string describe_slice(const Picture& picture) {
  const auto is_fixed = [](const std::optional<Offset>& index) { return index.has_value(); };
  if (std::none_of(picture.slice.begin(), picture.slice.end(), is_fixed)) return "";
  std::string text = "slice [";
  for (std::size_t i = 0; i < picture.slice.size(); ++i) {
    if (i > 0) text += ',';
    text += picture.slice[i] ? concat(*picture.slice[i]) : "*";
  }
  return text + "]; ";
}

}  // namespace

bool Picture::shows(Offset owner) const { return std::find(cells.begin(), cells.end(), owner) != cells.end(); }

Result<Picture> draw(const layout::Partition& partition, const PictureOptions& options) {
  const bool is_array = array_shape(partition).has_value();
  if (!is_array && !options.slice.empty()) {
    return invalid_argument("--slice is for arrays (hpf, tiles): this layout has no dimensions");
  }
  WEIR_TRY(Picture picture, is_array ? draw_array(partition, options) : draw_bytes(partition, options));
  if (options.element) {
    picture.is_restricted = true;
    for (Offset& owner : picture.cells) {
      if (owner >= 0 && owner != *options.element) owner = kNobody;
    }
  }
  return picture;
}

std::string describe(const Picture& picture) {
  std::string text;
  if (!picture.is_array) {
    text = concat("file bytes ", picture.row_axis.first, " to ", picture.row_axis.first + picture.row_axis.extent - 1,
                  "; ");
    return text + (picture.column_axis.step == 1 ? std::string("a cell is one byte")
                                                 : concat("a cell stands for ", picture.column_axis.step, " bytes"));
  }
  text = describe_slice(picture);
  const Offset rows = picture.row_axis.step;
  const Offset columns = picture.column_axis.step;
  if (rows == 1 && columns == 1) return text + "a cell is one array entry";
  if (!picture.row_axis.dimension) return text + concat("a cell stands for ", columns, " array entries");
  return text + concat("a cell stands for ", rows, " x ", columns, " array entries");
}

}  // namespace weir::cli::internal
