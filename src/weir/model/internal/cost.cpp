#include <weir/model/internal/cost.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weir::model::internal {
namespace {

// Pieces of different kinds run through different kernels (see transfer): single moves, several of them, moves that
// overlap, the C library.
enum class Kind { kWhole, kWords, kOverlapping, kBulk };

Kind kind_of(double length) noexcept {
  if (length > 1024) return Kind::kBulk;
  const auto n = static_cast<Offset>(length);
  const bool is_power = n <= 64 && (n & (n - 1)) == 0;
  if (is_power || n % 64 == 0) return Kind::kWhole;
  return n % 8 == 0 ? Kind::kWords : Kind::kOverlapping;
}

double mix(double from, double to, double share) noexcept { return from + (to - from) * share; }

// Position of x between low and high in the logarithm, 0 .. 1.
double log_share(double x, double low, double high) noexcept {
  if (x <= low || high <= low) return 0;
  if (x >= high) return 1;
  return std::log(x / low) / std::log(high / low);
}

// Between the knots, in the logarithm of the stride.
double factor_at(const std::vector<Correction>& knots, double stride) noexcept {
  const auto above =
      std::find_if(knots.begin(), knots.end(), [stride](const Correction& knot) { return knot.stride >= stride; });
  if (above == knots.begin()) return above->log_factor;
  if (above == knots.end()) return knots.back().log_factor;
  const auto below = above - 1;
  return mix(below->log_factor, above->log_factor, log_share(stride, below->stride, above->stride));
}

// The largest power of two that divides a stride says how few sets of the caches it leads to.
double power_of_two_in(double stride) noexcept {
  const auto whole = static_cast<Offset>(stride);
  return static_cast<double>(whole) == stride ? static_cast<double>(whole & -whole) : 1;
}

// A row may have been measured at other lengths: ordinary strides count in lengths, powers of two as they are.
double row_factor(const CorrectionRow& row, const PieceShape& shape, const Machine& machine) noexcept {
  const double ordinary =
      row.knots.empty() ? 0 : factor_at(row.knots, shape.stride / shape.length * static_cast<double>(row.length));
  if (row.aligned.empty()) return ordinary;
  const double power = power_of_two_in(shape.stride);
  // One line: all sets are used.  From the first knot on: measured.
  const double share = log_share(power, static_cast<double>(machine.line_bytes), row.aligned.front().stride);
  return mix(ordinary, factor_at(row.aligned, power), share);
}

double log_factor(const Regime& regime, const PieceShape& shape, const Machine& machine) noexcept {
  const Kind kind = kind_of(shape.length);
  const CorrectionRow* below = nullptr;
  const CorrectionRow* above = nullptr;
  for (const CorrectionRow& row : regime.rows) {
    if (row.knots.empty() || kind_of(static_cast<double>(row.length)) != kind) continue;
    if (static_cast<double>(row.length) <= shape.length) below = &row;
    if (static_cast<double>(row.length) >= shape.length && !above) above = &row;
  }
  if (!below) below = above;
  if (!above) above = below;
  if (!below) return 0;
  return mix(row_factor(*below, shape, machine), row_factor(*above, shape, machine),
             log_share(shape.length, static_cast<double>(below->length), static_cast<double>(above->length)));
}

PieceCost cost_in(const Regime& regime, const PieceShape& shape, const Machine& machine) noexcept {
  PieceCost cost = formula_cost(regime, shape, machine);
  cost.factor = std::exp(log_factor(regime, shape, machine));
  return cost;
}

double log_mix(double from, double to, double share) noexcept {
  if (from <= 0 || to <= 0) return mix(from, to, share);
  return std::exp(mix(std::log(from), std::log(to), share));
}

}  // namespace

double units_per_piece(double length, double stride, Offset unit) noexcept {
  const auto size = static_cast<double>(unit);
  if (stride - length < size) return std::max(stride, length) / size;
  const Offset grain = std::gcd(static_cast<Offset>(stride), unit);
  double units = 0;
  const Offset positions = std::min<Offset>(unit / grain, 64);
  const double step = size / static_cast<double>(positions);
  for (Offset i = 0; i < positions; ++i) {
    units += std::floor((step * static_cast<double>(i) + length - 1) / size) + 1;
  }
  return units / static_cast<double>(positions);
}

PieceCost formula_cost(const Regime& regime, const PieceShape& shape, const Machine& machine) noexcept {
  const auto extra = [&shape](Offset unit) {
    return std::max(0.0, units_per_piece(shape.length, shape.stride, unit) - shape.length / static_cast<double>(unit));
  };
  return {shape.length * regime.phi(shape.length), regime.line_seconds * extra(machine.line_bytes),
          regime.page_seconds * extra(machine.page_bytes), 1};
}

PieceCost piece_cost(const CopyModel& model, const PieceShape& shape, double working_set,
                     const Machine& machine) noexcept {
  const auto& regimes = model.regimes;
  const auto above = std::find_if(regimes.begin(), regimes.end(),
                                  [working_set](const Regime& regime) { return regime.working_set >= working_set; });
  if (above == regimes.begin()) return cost_in(*above, shape, machine);
  if (above == regimes.end()) return cost_in(regimes.back(), shape, machine);
  const auto below = above - 1;
  const double share = log_share(working_set, below->working_set, above->working_set);
  const PieceCost low = cost_in(*below, shape, machine);
  const PieceCost high = cost_in(*above, shape, machine);
  PieceCost cost{mix(low.copy, high.copy, share), mix(low.lines, high.lines, share), mix(low.pages, high.pages, share),
                 1};
  if (cost.formula() > 0) cost.factor = log_mix(low.seconds(), high.seconds(), share) / cost.formula();
  return cost;
}

PieceCost blend(const PieceCost& rest, const PieceCost& cost, double share) noexcept {
  PieceCost result{mix(rest.copy, cost.copy, share), mix(rest.lines, cost.lines, share),
                   mix(rest.pages, cost.pages, share), 1};
  if (result.formula() > 0) result.factor = mix(rest.seconds(), cost.seconds(), share) / result.formula();
  return result;
}

}  // namespace weir::model::internal
