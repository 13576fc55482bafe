#include <weir/model/model.h>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <weir/layout/language.h>
#include <weir/model/internal/cost.h>
#include <weir/transfer/packing.h>

namespace weir::model {
namespace {

using internal::PieceCost;
using layout::Element;
using layout::Mapping;
using layout::Partition;

constexpr Offset kMostPairs = Offset{1} << 16;

// The share of the lines of a piece that no earlier message has visited: together, messages visit each line once for
// the first time.
double fresh_share(const CopyFamily& family, double stride, double density, const Machine& machine) {
  const auto length = static_cast<double>(family.length);
  const double lines = internal::units_per_piece(length, stride, machine.line_bytes);
  return std::min(1.0, density * length / static_cast<double>(machine.line_bytes) / lines);
}

// Fresh lines come from where all the data is, the others from where the message before has left them.
PieceCost cost_on(const CopyModel& model, const CopyFamily& family, double stride, const CopyFeatures& features,
                  const CopyConditions& conditions, const Machine& machine) {
  const internal::PieceShape shape{static_cast<double>(family.length), stride};
  const PieceCost warm = internal::piece_cost(model, shape, features.working_set, machine);
  if (conditions.working_set <= features.working_set) return warm;
  const PieceCost cold = internal::piece_cost(model, shape, conditions.working_set, machine);
  return internal::blend(warm, cold, fresh_share(family, stride, conditions.density, machine));
}

void add(CopyPrediction& sum, const PieceCost& cost, double pieces) {
  sum.seconds += pieces * cost.seconds();
  sum.formula_seconds += pieces * cost.formula();
  sum.copy_seconds += pieces * cost.copy;
  sum.line_seconds += pieces * cost.lines;
  sum.page_seconds += pieces * cost.pages;
}

void add_start(CopyPrediction& sum, double seconds) {
  sum.seconds += seconds;
  sum.formula_seconds += seconds;
  sum.turn_seconds += seconds;
}

// Array to array, if that was not measured: the lines and pages of both sides, the moves themselves once.
PieceCost cost_of_both(PieceCost source, const PieceCost& target) {
  if (target.copy > source.copy) source.copy = target.copy;
  const double factor =
      (source.formula() * source.factor + target.formula() * target.factor) / (source.formula() + target.formula());
  return {source.copy, source.lines + target.lines, source.pages + target.pages, factor};
}

}  // namespace

CopyPrediction& CopyPrediction::operator+=(const CopyPrediction& other) {
  seconds += other.seconds;
  formula_seconds += other.formula_seconds;
  copy_seconds += other.copy_seconds;
  line_seconds += other.line_seconds;
  page_seconds += other.page_seconds;
  turn_seconds += other.turn_seconds;
  return *this;
}

CopyPrediction predict_copy(const Machine& machine, const CopyFeatures& features, const CopyConditions& conditions) {
  CopyPrediction sum;
  for (const CopyFamily& family : features.families) {
    const auto packing = [&] {
      return cost_on(machine.pack, family, family.source_stride, features, conditions, machine);
    };
    const auto unpacking = [&] {
      return cost_on(machine.unpack, family, family.target_stride, features, conditions, machine);
    };
    // Measured with one stride on both sides: half of it is that of the source, half that of the target.
    const auto copying = [&] {
      if (machine.copy.regimes.empty()) return cost_of_both(packing(), unpacking());
      return internal::blend(cost_on(machine.copy, family, family.source_stride, features, conditions, machine),
                             cost_on(machine.copy, family, family.target_stride, features, conditions, machine), 0.5);
    };
    switch (features.path) {
      case Path::kPack: add(sum, packing(), family.pieces); break;
      case Path::kUnpack: add(sum, unpacking(), family.pieces); break;
      case Path::kCopy: add(sum, copying(), family.pieces); break;
    }
    add_start(sum, family.turns * (features.path == Path::kPack ? machine.pack : machine.unpack).turn_seconds);
  }
  return sum;
}

double RankPrediction::seconds() const noexcept {
  return pack_seconds + unpack_seconds + local_seconds + message_seconds.value_or(0);
}

// ---- one phase -----------------------------------------------------------------------------------------------------

namespace {

// What element i of the one layout and element j of the other have in common.
struct Pair {
  Offset from_rank;
  Offset to_rank;
  Offset bytes;
  bool from_in_place;
  bool to_in_place;
  CopyFeatures pack;
  CopyFeatures unpack;
  std::optional<CopyFeatures> copy;  // of local pairs
};

// All of them, or those of one rank.
Result<std::vector<Pair>> find_pairs(const Machine& machine, const Partition& from, const Partition& to, Offset ranks,
                                     Offset bytes, std::optional<Offset> only = {}) {
  std::vector<Element> targets;
  for (Offset j = 0; j < to.element_count(); ++j) {
    WEIR_TRY(targets.emplace_back(), to.element(j));
  }
  layout::Window window;
  window.file = {from.disp(), from.disp() + bytes};
  std::vector<Pair> pairs;
  for (Offset i = 0; i < from.element_count(); ++i) {
    WEIR_TRY(const Element source, from.element(i));
    for (Offset j = 0; j < to.element_count(); ++j) {
      if (only && i % ranks != *only && j % ranks != *only) continue;
      WEIR_TRY(const Mapping mapping, layout::intersect(source, targets[static_cast<std::size_t>(j)], window));
      if (mapping.is_empty()) continue;
      const transfer::Packing packing = transfer::Packing::create(mapping, transfer::End::kA);
      Pair& pair = pairs.emplace_back(Pair{i % ranks, j % ranks, mapping.bytes(), packing.a_direct.has_value(),
                                           packing.b_direct.has_value(), features_of(mapping, Path::kPack, machine),
                                           features_of(mapping, Path::kUnpack, machine), std::nullopt});
      if (pair.from_rank == pair.to_rank) pair.copy = features_of(mapping, Path::kCopy, machine);
    }
  }
  return pairs;
}

// Bytes that a rank touches: a redistribution visits all of it before it comes back to any.
struct Touched {
  double packing = 0;
  double unpacking = 0;
};

std::vector<Touched> touched_by_ranks(const std::vector<Pair>& pairs, Offset ranks) {
  std::vector<Touched> touched(static_cast<std::size_t>(ranks));
  for (const Pair& pair : pairs) {  // array and message
    touched[static_cast<std::size_t>(pair.from_rank)].packing += 2.0 * static_cast<double>(pair.bytes);
    touched[static_cast<std::size_t>(pair.to_rank)].unpacking += 2.0 * static_cast<double>(pair.bytes);
  }
  return touched;
}

void add_local(const Machine& machine, const Pair& pair, const Touched& touched, RankPrediction& rank) {
  const double working_set = std::max(touched.packing, touched.unpacking);
  rank.bytes_local += pair.bytes;
  rank.direct_seconds += predict_copy(machine, *pair.copy, {working_set}).seconds;
  rank.packed_seconds += predict_copy(machine, pair.pack, {touched.packing}).seconds +
                         predict_copy(machine, pair.unpack, {touched.unpacking}).seconds;
}

void add_send(const Machine& machine, const Pair& pair, double working_set, RankPrediction& rank) {
  ++rank.sends;
  rank.bytes_sent += pair.bytes;
  if (pair.from_in_place) {
    ++rank.sends_in_place;
    return;
  }
  rank.pieces_packed += pair.pack.pieces;
  rank.pack_seconds += predict_copy(machine, pair.pack, {working_set}).seconds;
}

void add_receive(const Machine& machine, const Pair& pair, double working_set, RankPrediction& rank) {
  ++rank.receives;
  rank.bytes_received += pair.bytes;
  if (pair.to_in_place) {
    ++rank.receives_in_place;
    return;
  }
  rank.pieces_unpacked += pair.unpack.pieces;
  rank.unpack_seconds += predict_copy(machine, pair.unpack, {working_set}).seconds;
}

void finish_rank(const Machine& machine, Local local, RankPrediction& rank) {
  const bool is_direct =
      local == Local::kDirect || (local == Local::kAuto && rank.direct_seconds <= rank.packed_seconds);
  rank.local_seconds = is_direct ? rank.direct_seconds : rank.packed_seconds;
  if (!machine.network) return;
  const auto messages = static_cast<double>(std::max(rank.sends, rank.receives));
  const auto bytes = static_cast<double>(std::max(rank.bytes_sent, rank.bytes_received));
  rank.message_seconds = messages * machine.network->latency_seconds + bytes / machine.network->bytes_per_second;
}

// What each rank spends on these pairs.
std::vector<RankPrediction> spend(const Machine& machine, const std::vector<Pair>& pairs, Offset ranks, Local local) {
  const std::vector<Touched> touched = touched_by_ranks(pairs, ranks);
  std::vector<RankPrediction> spent(static_cast<std::size_t>(ranks));
  for (const Pair& pair : pairs) {
    const auto sender = static_cast<std::size_t>(pair.from_rank);
    const auto receiver = static_cast<std::size_t>(pair.to_rank);
    if (sender == receiver) {
      add_local(machine, pair, touched[sender], spent[sender]);
    } else {
      add_send(machine, pair, touched[sender].packing, spent[sender]);
      add_receive(machine, pair, touched[receiver].unpacking, spent[receiver]);
    }
  }
  for (std::size_t i = 0; i < spent.size(); ++i) {
    spent[i].rank = static_cast<Offset>(i);
    finish_rank(machine, local, spent[i]);
  }
  return spent;
}

Result<PhasePrediction> predict_phase(const Machine& machine, const Partition& from, const Partition& to, Offset ranks,
                                      Offset bytes, Local local) {
  PhasePrediction phase{layout::print(from), layout::print(to), true, {}, 0, 0};
  WEIR_TRY(const std::vector<Pair> pairs, find_pairs(machine, from, to, ranks, bytes));
  phase.ranks = spend(machine, pairs, ranks, local);
  for (std::size_t i = 0; i < phase.ranks.size(); ++i) {
    if (phase.ranks[i].seconds() > phase.ranks[phase.critical].seconds()) phase.critical = i;
  }
  const RankPrediction& critical = phase.ranks[phase.critical];
  phase.seconds = critical.seconds();
  phase.local_direct =
      local == Local::kDirect || (local == Local::kAuto && critical.direct_seconds <= critical.packed_seconds);
  return phase;
}

// ---- two phases ----------------------------------------------------------------------------------------------------

// Elements in a block; BLOCK is CYCLIC with one block for each process.
Offset width_of(const layout::Hpf& hpf, std::size_t dimension) {
  const layout::Dist& dist = hpf.dist[dimension];
  const Offset extent = hpf.shape[dimension];
  switch (dist.kind) {
    case layout::Dist::Kind::kWhole: return extent;
    case layout::Dist::Kind::kBlock: return dist.width > 0 ? dist.width : ceil_div(extent, hpf.grid[dimension]);
    case layout::Dist::Kind::kCyclic: break;
  }
  return std::max<Offset>(dist.width, 1);
}

bool can_meet(const layout::Hpf& a, const layout::Hpf& b) {
  return a.shape == b.shape && a.elem == b.elem && a.grid == b.grid && a.order == b.order;
}

double sum_of(const std::vector<PhasePrediction>& phases) {
  double seconds = 0;
  for (const PhasePrediction& phase : phases) seconds += phase.seconds;
  return seconds;
}

Result<Offset> bytes_of(const Partition& from, const Partition& to, Offset asked) {
  if (asked > 0) return asked;
  return checked_mul(from.period() / std::gcd(from.period(), to.period()), to.period());
}

Status check(const Machine& machine, const Partition& from, const Partition& to, const Options& options) {
  if (machine.pack.regimes.empty() || machine.unpack.regimes.empty() || machine.caches.empty()) {
    return invalid_argument("predict: the machine is not calibrated");
  }
  if (from.disp() != to.disp()) {
    return invalid_argument(
        fmt::format("predict: the layouts start at different bytes, disp={} and disp={}", from.disp(), to.disp()));
  }
  if (options.ranks < 0 || options.bytes < 0) return invalid_argument("predict: ranks and bytes must not be negative");
  return Status::ok();
}

Status check_pairs(const Partition& from, const Partition& to) {
  if (from.element_count() > kMostPairs / std::max<Offset>(1, to.element_count())) {
    return too_complex(fmt::format("predict: {} times {} elements are more than {} pairs to look at",
                                   from.element_count(), to.element_count(), kMostPairs));
  }
  return Status::ok();
}

void choose(std::vector<PhasePrediction> one, std::vector<PhasePrediction> two, Phases asked, Prediction& prediction) {
  const bool is_one = asked == Phases::kOne || (asked == Phases::kAuto && (two.empty() || sum_of(one) <= sum_of(two)));
  if (asked != Phases::kAuto) {
    prediction.why = fmt::format("{} as asked for", is_one ? "one phase" : "two phases");
  } else if (two.empty()) {
    prediction.why = "one phase: there is no block-cyclic layout between the two";
  } else {
    prediction.why = fmt::format("{}: {:.4g} s in one phase, {:.4g} s in two through {}",
                                 is_one ? "one phase" : "two phases", sum_of(one), sum_of(two), two.front().to);
  }
  prediction.phases = is_one ? std::move(one) : std::move(two);
  prediction.alternative = is_one ? std::move(two) : std::move(one);
  prediction.seconds = sum_of(prediction.phases);
  prediction.alternative_seconds = sum_of(prediction.alternative);
}

}  // namespace

std::optional<Partition> layout_between(const Partition& from, const Partition& to) {
  const auto* a = std::get_if<layout::Hpf>(&from.description());
  const auto* b = std::get_if<layout::Hpf>(&to.description());
  if (!a || !b || from.disp() != to.disp() || !can_meet(*a, *b)) return std::nullopt;
  layout::Hpf between = *a;
  bool is_a = true;
  bool is_b = true;
  for (std::size_t i = 0; i < between.shape.size(); ++i) {
    const Offset x = width_of(*a, i);
    const Offset y = width_of(*b, i);
    if (a->grid[i] == 1 || x == y) continue;
    const Result<Offset> common = checked_mul(x / std::gcd(x, y), y);
    // With blocks so wide that processes are left without any, the data would pile up on the others.
    if (!common.is_ok() || *common > between.shape[i] / between.grid[i]) return std::nullopt;
    between.dist[i] = {layout::Dist::Kind::kCyclic, *common};
    is_a = is_a && *common == x;
    is_b = is_b && *common == y;
  }
  if (is_a || is_b) return std::nullopt;
  const Result<Partition> partition = Partition::create(between, {.disp = from.disp(), .period = 0});
  return partition.is_ok() ? std::optional(*partition) : std::nullopt;
}

Result<Partition> with_elem(const Partition& partition, Offset elem) {
  layout::Description description = partition.description();
  if (auto* hpf = std::get_if<layout::Hpf>(&description)) {
    hpf->elem = elem;
  } else if (auto* tiles = std::get_if<layout::Tiles>(&description)) {
    tiles->elem = elem;
  } else {
    return invalid_argument(fmt::format("only hpf and tiles have an element size, not {}", layout::print(partition)));
  }
  return Partition::create(std::move(description), {.disp = partition.disp(), .period = 0});
}

Result<RankPrediction> predict_rank(const Machine& machine, const Partition& from, const Partition& to, Offset rank,
                                    const Options& options) {
  WEIR_RETURN_IF_ERROR(check(machine, from, to, options));
  WEIR_TRY(const Offset bytes, bytes_of(from, to, options.bytes));
  WEIR_TRY(const std::vector<Pair> pairs, find_pairs(machine, from, to, options.ranks, bytes, rank));
  return spend(machine, pairs, options.ranks, options.local)[static_cast<std::size_t>(rank)];
}

Result<Prediction> predict_redistribution(const Machine& machine, const Partition& from, const Partition& to,
                                          const Options& options) {
  WEIR_RETURN_IF_ERROR(check(machine, from, to, options));
  WEIR_RETURN_IF_ERROR(check_pairs(from, to));
  WEIR_TRY(const Offset bytes, bytes_of(from, to, options.bytes));
  const Offset ranks = options.ranks > 0 ? options.ranks : std::max(from.element_count(), to.element_count());
  if (ranks > kMostPairs) return too_complex(fmt::format("predict: {} ranks are more than {}", ranks, kMostPairs));
  Prediction prediction;
  prediction.knows_messages = machine.network.has_value();
  WEIR_TRY(PhasePrediction direct, predict_phase(machine, from, to, ranks, bytes, options.local));
  std::vector<PhasePrediction> one{std::move(direct)};
  std::vector<PhasePrediction> two;
  if (const std::optional<Partition> between = layout_between(from, to)) {
    WEIR_TRY(PhasePrediction first, predict_phase(machine, from, *between, ranks, bytes, options.local));
    WEIR_TRY(PhasePrediction second, predict_phase(machine, *between, to, ranks, bytes, options.local));
    two.push_back(std::move(first));
    two.push_back(std::move(second));
  }
  if (two.empty() && options.phases == Phases::kTwo) {
    return invalid_argument(
        "predict: two phases need two hpf layouts of one shape, element size and grid whose block widths do not divide "
        "each "
        "other; leave out --phases 2");
  }
  choose(std::move(one), std::move(two), options.phases, prediction);
  return prediction;
}

}  // namespace weir::model
