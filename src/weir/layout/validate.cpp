#include <weir/layout/partition.h>

// Whether explicit elements are disjoint and cover the period, told from their structure.
//
// Stripe, hpf and tiles are layouts by construction.  For explicit elements: the lowest byte that two of them (or one
// of them twice) hold is found by intersecting their trees; below it every byte counts once, so "bytes covered below x"
// == x until the first uncovered byte, which a bisection finds.

#include <algorithm>

#include <weir/layout/internal/duplicate.h>
#include <weir/layout/internal/meet.h>

namespace weir::layout {

namespace {

using internal::Shape;

struct Overlap {
  Offset byte = kMaxBytes;  // of the period
  std::size_t first = 0;
  std::size_t second = 0;
};

class Validator {
 public:
  explicit Validator(const Explicit& elements) : elements_(elements.elements) {}

  Status run(Offset disp, Offset period) {
    WEIR_RETURN_IF_ERROR(build());
    WEIR_RETURN_IF_ERROR(find_overlap());
    const Offset end = std::min(overlap_.byte, period);
    const Offset uncovered = first_uncovered(end);
    if (uncovered < end) {
      return invalid_argument(
          concat("layout: byte ", disp + uncovered, " of the file", in_period(disp, uncovered),
                 " belongs to no element; the elements must cover the period of ", period, " bytes"),
          disp + uncovered);
    }
    if (overlap_.byte == kMaxBytes) return Status::ok();
    return invalid_argument(
        concat("layout: byte ", disp + overlap_.byte, " of the file", in_period(disp, overlap_.byte),
               overlap_.first == overlap_.second
                   ? concat(" occurs twice in element ", overlap_.first)
                   : concat(" belongs to elements ", overlap_.first, " and ", overlap_.second)),
        disp + overlap_.byte);
  }

 private:
  static std::string in_period(Offset disp, Offset byte) {
    return disp == 0 ? std::string() : concat(" (byte ", byte, " of the period)");
  }

  Status build() {
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      WEIR_TRY(internal::Spatial spatial, internal::make_spatial(simplify(elements_[i])));
      WEIR_TRY(const auto duplicate, internal::first_duplicate(spatial));
      if (duplicate && *duplicate < overlap_.byte) overlap_ = {*duplicate, i, i};
      shapes_.push_back(internal::make_shape(std::make_shared<const internal::Tree>(std::move(spatial.tree))));
    }
    return Status::ok();
  }

  Status find_overlap() {
    std::vector<std::size_t> by_start;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      if (shapes_[i].tree->root_count > 0) by_start.push_back(i);
    }
    const auto start = [&](std::size_t i) { return shapes_[i].tree->nodes[0].x; };
    std::sort(by_start.begin(), by_start.end(), [&](std::size_t a, std::size_t b) { return start(a) < start(b); });
    for (std::size_t i = 0; i < by_start.size(); ++i) {
      const Shape& shape = shapes_[by_start[i]];
      for (std::size_t j = i + 1; j < by_start.size() && start(by_start[j]) < shape.root.length; ++j) {
        WEIR_TRY(const auto common, internal::first_common(shape, shapes_[by_start[j]], overlap_.byte));
        if (common) overlap_ = {*common, std::min(by_start[i], by_start[j]), std::max(by_start[i], by_start[j])};
      }
    }
    return Status::ok();
  }

  [[nodiscard]] Offset covered_below(Offset x) const {
    Offset total = 0;
    for (const Shape& shape : shapes_) total += internal::count_below(*shape.tree, 0, shape.tree->root_count, x);
    return total;
  }

  // The lowest byte below `end` that no element holds, or `end`.
  [[nodiscard]] Offset first_uncovered(Offset end) const {
    Offset low = 0;
    while (low < end) {
      const Offset middle = low + (end - low) / 2;
      if (covered_below(middle + 1) == middle + 1) {
        low = middle + 1;
      } else {
        end = middle;
      }
    }
    return low;
  }

  const std::vector<FallsSet>& elements_;
  std::vector<Shape> shapes_;
  Overlap overlap_;
};

}  // namespace

Status Partition::validate() const {
  const auto* elements = std::get_if<Explicit>(&description_);
  return elements ? Validator{*elements}.run(disp_, period_) : Status::ok();
}

}  // namespace weir::layout
