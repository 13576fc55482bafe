#include <weir/layout/partition.h>

#include <utility>

#include <weir/layout/array_order.h>
#include <weir/layout/internal/construct.h>
#include <weir/layout/internal/description.h>
#include <weir/layout/internal/tiles.h>

namespace weir::layout {
namespace {

void drop_meaningless_strides(FallsSet& set) {
  for (Falls& falls : set) {
    if (falls.count == 1) falls.stride = 0;
    drop_meaningless_strides(falls.inner);
  }
}

/// The dimension of the array that is the d-th from outside in the file.
std::size_t file_dimension(ArrayOrder order, std::size_t rank, std::size_t d) {
  return order == ArrayOrder::kC ? d : rank - 1 - d;
}

Pitfalls::Level level_of(const Hpf& hpf, std::size_t d) {
  const Offset extent = hpf.shape[d];
  const Offset width = hpf.dist[d].width;
  switch (hpf.dist[d].kind) {
    case Dist::Kind::kWhole: break;
    case Dist::Kind::kBlock: return {extent, width != 0 ? width : ceil_div(extent, hpf.grid[d]), hpf.grid[d]};
    case Dist::Kind::kCyclic: return {extent, width != 0 ? width : 1, hpf.grid[d]};
  }
  return {extent, extent, 1};
}

/// The PITFALLS of a distribution: the levels are the dimensions in file order.
Pitfalls pitfalls_of(const Hpf& hpf) {
  Pitfalls pitfalls{.levels = {}, .elem = hpf.elem};
  const std::size_t rank = hpf.shape.size();
  for (std::size_t d = 0; d < rank; ++d) pitfalls.levels.push_back(level_of(hpf, file_dimension(hpf.order, rank, d)));
  return pitfalls;
}

/// The same over a file in C order, for elements in Fortran order: the last dimension is the slowest of the element.
Pitfalls turned_pitfalls_of(const Hpf& hpf) {
  Pitfalls pitfalls{.levels = {}, .elem = hpf.elem};
  Offset unit = hpf.elem;
  for (std::size_t d = hpf.shape.size(); d-- > 0; unit *= hpf.shape[d]) {
    Pitfalls::Level level = level_of(hpf, d);
    level.unit = unit;
    pitfalls.levels.push_back(level);
  }
  return pitfalls;
}

/// The grid coordinates of process `index`, in file order of the dimensions they belong to.
std::vector<Offset> coordinates_of(const Hpf& hpf, Offset index) {
  const std::size_t rank = hpf.grid.size();
  std::vector<Offset> coordinates(rank);
  for (std::size_t d = rank; d-- > 0;) {
    coordinates[file_dimension(hpf.order, rank, d)] = index % hpf.grid[d];
    index /= hpf.grid[d];
  }
  return coordinates;
}

/// More nodes than evaluate() makes: a dimension may need one family for whole blocks and one for the clipped block.
Offset bound_nodes(const Pitfalls& pitfalls, const std::vector<Offset>& coordinates) {
  Offset nodes = 1;
  for (std::size_t d = pitfalls.levels.size(); d-- > 0 && nodes <= internal::kMaxNodes;) {
    const internal::Share share = internal::deal(pitfalls.levels[d], coordinates[d]);
    nodes = (share.full_count > 0 ? nodes + 2 : 0) + (share.clipped > 0 ? nodes + 1 : 0);
  }
  return nodes;
}

Result<FallsSet> set_of(const Stripe& stripe, Offset index) {
  const Offset left = index * stripe.unit;
  return FallsSet{Falls{.left = left, .right = left + stripe.unit - 1, .inner = {}}};
}

Result<FallsSet> set_of(const Hpf& hpf, Offset index) {
  const Pitfalls pitfalls = pitfalls_of(hpf);
  const std::vector<Offset> coordinates = coordinates_of(hpf, index);
  if (bound_nodes(pitfalls, coordinates) > internal::kMaxNodes) {
    return too_complex(concat("hpf: element ", index, " needs more than ", internal::kMaxNodes,
                              " FALLS: too many dimensions end in a clipped block"));
  }
  return pitfalls.evaluate(coordinates);
}

Result<FallsSet> set_of(const Tiles& tiles, Offset index) { return internal::tiles_of(tiles, index); }

Result<FallsSet> set_of(const Explicit& description, Offset index) {
  return description.elements[static_cast<std::size_t>(index)];
}

// The owner of the byte at offset x of the period.
Offset owner_in(const Stripe& stripe, Offset x) { return x / stripe.unit; }

Offset owner_in(const Hpf& hpf, Offset x) {
  const std::size_t rank = hpf.shape.size();
  Offset index = x / hpf.elem;
  Offset owner = 0;
  Offset weight = 1;
  // Array indices come off innermost first; grid coordinates count row-major whatever the order, so F needs them later.
  std::vector<Offset> coordinates(rank);
  for (std::size_t d = rank; d-- > 0;) {
    const std::size_t dimension = file_dimension(hpf.order, rank, d);
    const Pitfalls::Level level = level_of(hpf, dimension);
    coordinates[dimension] = index % level.extent / level.block % level.processes;
    index /= level.extent;
  }
  for (std::size_t d = rank; d-- > 0; weight *= hpf.grid[d]) owner += coordinates[d] * weight;
  return owner;
}

Offset owner_in(const Tiles& tiles, Offset x) {
  const std::size_t rank = tiles.shape.size();
  Offset index = x / tiles.elem;
  Offset number = 0;
  Offset weight = 1;
  for (std::size_t d = rank; d-- > 0;) {
    const std::size_t dimension = file_dimension(tiles.order, rank, d);
    number += index % tiles.shape[dimension] / tiles.tile[dimension] * weight;
    index /= tiles.shape[dimension];
    weight *= ceil_div(tiles.shape[dimension], tiles.tile[dimension]);
  }
  return number % tiles.over;
}

}  // namespace

Result<Partition> Partition::create(Description description, Options options) {
  internal::Facts facts;
  if (auto problem = internal::examine(description, facts)) return std::move(problem->status);
  if (auto problem = internal::examine(description, facts, options)) return std::move(problem->status);
  if (auto* elements = std::get_if<Explicit>(&description)) {
    for (FallsSet& set : elements->elements) drop_meaningless_strides(set);
  }
  Partition partition;
  partition.description_ = std::move(description);
  partition.disp_ = options.disp;
  partition.period_ = options.period != 0 ? options.period : facts.period;
  partition.default_period_ = facts.period;
  partition.element_count_ = facts.elements;
  return partition;
}

Result<Element> Partition::element(Offset index) const {
  if (index < 0 || index >= element_count_) {
    return out_of_range(concat("there is no element ", index, ": the partition has ", element_count_,
                               ", numbered from 0 to ", element_count_ - 1));
  }
  WEIR_TRY(FallsSet set, std::visit([index](const auto& one) { return set_of(one, index); }, description_));
  return Element::create(std::move(set), {.disp = disp_, .period = period_});
}

Result<std::optional<Offset>> Partition::owner(Offset x) const {
  using Owner = std::optional<Offset>;
  if (x < disp_) return Owner{};
  const Offset offset = (x - disp_) % period_;
  if (const auto* stripe = std::get_if<Stripe>(&description_)) return Owner{owner_in(*stripe, offset)};
  if (const auto* hpf = std::get_if<Hpf>(&description_)) return Owner{owner_in(*hpf, offset)};
  if (const auto* tiles = std::get_if<Tiles>(&description_)) return Owner{owner_in(*tiles, offset)};
  for (Offset i = 0; i < element_count_; ++i) {
    WEIR_TRY(const Element candidate, element(i));
    if (candidate.map(x)) return Owner{i};
  }
  return Owner{};
}

Result<Partition> in_c_order(const Partition& partition) {
  if (const auto* tiles = std::get_if<Tiles>(&partition.description()); tiles && tiles->order == ArrayOrder::kFortran) {
    return invalid_argument("in_c_order: tiles in Fortran order have no form over a file in C order yet");
  }
  const auto* hpf = std::get_if<Hpf>(&partition.description());
  if (!hpf || hpf->order == ArrayOrder::kC) return partition;
  if (partition.element_count() > internal::kMaxNodes) {
    return too_complex(concat("in_c_order: ", partition.element_count(), " elements are too many to list"));
  }
  const Pitfalls pitfalls = turned_pitfalls_of(*hpf);
  Explicit turned;
  for (Offset i = 0; i < partition.element_count(); ++i) {
    turned.elements.push_back(pitfalls.evaluate(coordinates_of(*hpf, i)));
  }
  return Partition::create(std::move(turned), {.disp = partition.disp(), .period = partition.period()});
}

}  // namespace weir::layout
