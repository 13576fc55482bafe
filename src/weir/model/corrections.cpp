#include <weir/model/corrections.h>

#include <algorithm>
#include <cmath>

namespace weir::model {
namespace {

// Weight of a new measurement, once there were some.
constexpr double kWeight = 1.0 / 8;
constexpr double kMostCounted = 1000;

std::uint64_t packed(std::uint32_t count, double log_ratio) noexcept {
  return std::uint64_t{count} << 32 | std::bit_cast<std::uint32_t>(static_cast<float>(log_ratio));
}
std::uint32_t count_in(std::uint64_t state) noexcept { return static_cast<std::uint32_t>(state >> 32); }
double bounded(double ratio) noexcept { return std::clamp(ratio, 1 / Corrections::kMost, Corrections::kMost); }
double log_ratio_in(std::uint64_t state) noexcept {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(state)));
}

}  // namespace

// Classes of a factor of four: below 4 KiB, below 16 KiB, ...
std::size_t Corrections::index(Kind kind, Offset bytes) noexcept {
  const std::size_t width = std::bit_width(static_cast<std::uint64_t>(std::max<Offset>(bytes, 0)) >> 12);
  return static_cast<std::size_t>(kind) * kClasses + std::min<std::size_t>((width + 1) / 2, kClasses - 1);
}

Corrections::Estimate Corrections::estimate(const Cell& cell, Clock::time_point now) noexcept {
  const std::uint64_t state = cell.state.load(std::memory_order_relaxed);
  if (count_in(state) == 0) return {};
  const Clock::duration age = now.time_since_epoch() - Clock::duration(cell.at.load(std::memory_order_relaxed));
  const double trust = 1 / (1 + std::max(std::chrono::duration<double>(age) / kHalfLife, 0.0));
  return {log_ratio_in(state) * trust, trust, count_in(state) * trust};
}

double Corrections::ratio(Kind kind, Offset bytes, Clock::time_point now) const noexcept {
  return bounded(std::exp(estimate(cells_[index(kind, bytes)], now).log_ratio));
}

Corrections::Factors Corrections::factors(Kind first, Kind second, Offset bytes, Clock::time_point now) const noexcept {
  const Estimate one = estimate(cells_[index(first, bytes)], now);
  const Estimate two = estimate(cells_[index(second, bytes)], now);
  return {bounded(std::exp(one.log_ratio + (1 - one.trust) * two.log_ratio / 2)),
          bounded(std::exp(two.log_ratio + (1 - two.trust) * one.log_ratio / 2))};
}

void Corrections::note(Kind kind, Offset bytes, double predicted_seconds, double measured_seconds,
                       Clock::time_point now) noexcept {
  if (!(predicted_seconds > 0) || !(measured_seconds > 0)) return;
  const double sample = std::log(bounded(measured_seconds / predicted_seconds));
  Cell& cell = cells_[index(kind, bytes)];
  const Estimate old = estimate(cell, now);
  std::uint64_t state = cell.state.load(std::memory_order_relaxed);
  // The prediction itself counts as the first measurement.  Of two that note at the same time, one may be lost.
  const double weight = std::max(kWeight, 1 / (2 + old.count));
  const std::uint64_t fresh = packed(static_cast<std::uint32_t>(std::min(old.count, kMostCounted)) + 1,
                                     old.log_ratio + weight * (sample - old.log_ratio));
  cell.state.compare_exchange_strong(state, fresh, std::memory_order_relaxed);
  cell.at.store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

}  // namespace weir::model
