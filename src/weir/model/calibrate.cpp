#include <weir/model/calibrate.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>

#include <weir/model/internal/cost.h>
#include <weir/model/internal/measure.h>
#include <weir/transfer/plan.h>

namespace weir::model {
namespace {

using internal::Arena;

// ---- fitting -------------------------------------------------------------------------------------------------------

// The logarithms of a, b, c, kappa, theta: all of them are positive, and steps are relative.
using Parameters = std::array<double, 5>;

Regime regime_of(const Parameters& x, double working_set) {
  return {working_set, {std::exp(x[0]), std::exp(x[1]), std::exp(x[2])}, std::exp(x[3]), std::exp(x[4]), {}};
}

// Squares of log(predicted / measured), damped beyond 30 %: some samples are always disturbed.
double misfit(const Parameters& x, std::span<const Sample> samples, const Machine& machine) {
  constexpr double kKnee = 0.3;
  const Regime regime = regime_of(x, 0);
  double sum = 0;
  for (const Sample& sample : samples) {
    const auto cost = internal::formula_cost(
        regime, {static_cast<double>(sample.length), static_cast<double>(sample.stride)}, machine);
    const double error = std::abs(std::log(cost.formula() / sample.piece_seconds));
    sum += error < kKnee ? error * error : kKnee * (2 * error - kKnee);
  }
  // Keeps parameters that the samples say nothing about where they are finite and small.
  return sum + 1e-6 * (std::exp(2 * x[1]) + std::exp(x[3] + 18) + std::exp(x[4] + 18));
}

// Hooke and Jeeves: try each parameter both ways, repeat a move that helped, shrink the steps when none does.
Parameters search(Parameters start, std::span<const Sample> samples, const Machine& machine) {
  const auto explore = [&](Parameters& x, double best, double step) {
    for (double& parameter : x) {
      const double old = parameter;
      for (const double move : {step, -step}) {
        parameter = old + move;
        const double value = misfit(x, samples, machine);
        if (value < best) {
          best = value;
          break;
        }
        parameter = old;
      }
    }
    return best;
  };
  double best = misfit(start, samples, machine);
  for (double step = 0.5; step > 1e-4;) {
    Parameters next = start;
    const double value = explore(next, best, step);
    if (value >= best) {
      step /= 2;
      continue;
    }
    Parameters leap;
    for (std::size_t i = 0; i < leap.size(); ++i) leap[i] = 2 * next[i] - start[i];
    start = next;
    best = value;
    const double leapt = explore(leap, misfit(leap, samples, machine), step);
    if (leapt < best) {
      start = leap;
      best = leapt;
    }
  }
  return start;
}

Parameters first_guess(std::span<const Sample> samples) {
  double per_byte = 1e300;
  double shortest = 1e300;
  for (const Sample& sample : samples) {
    per_byte = std::min(per_byte, sample.piece_seconds / static_cast<double>(sample.length));
    shortest = std::min(shortest, sample.piece_seconds);
  }
  return {std::log(shortest), std::log(1.0), std::log(per_byte * 0.8), std::log(shortest), std::log(shortest)};
}

}  // namespace

Regime fit_regime(std::span<const Sample> samples, double working_set, Offset line_bytes, Offset page_bytes) {
  assert(samples.size() >= 6);
  Machine machine;
  machine.line_bytes = line_bytes;
  machine.page_bytes = page_bytes;
  // Several starts: with few samples the valleys of b and of kappa are shallow.
  const Parameters guess = first_guess(samples);
  Parameters best = search(guess, samples, machine);
  for (const double shift : {-2.0, 2.0}) {
    Parameters other = guess;
    other[3] += shift;
    other[4] += shift;
    other = search(other, samples, machine);
    if (misfit(other, samples, machine) < misfit(best, samples, machine)) best = other;
  }
  Regime regime = regime_of(best, working_set);
  std::map<Offset, std::vector<Correction>> rows;
  for (const Sample& sample : samples) {
    const auto stride = static_cast<double>(sample.stride);
    const auto cost = internal::formula_cost(regime, {static_cast<double>(sample.length), stride}, machine);
    rows[sample.length].push_back({stride, std::log(sample.piece_seconds / cost.formula())});
  }
  for (auto& [length, knots] : rows) {
    std::sort(knots.begin(), knots.end(), [](const Correction& x, const Correction& y) { return x.stride < y.stride; });
    regime.rows.push_back({length, std::move(knots)});
  }
  return regime;
}

// ---- measuring -----------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kArrayBytes = std::size_t{1} << 28;
constexpr std::size_t kMessageBytes = std::size_t{1} << 27;

struct Bench {
  Arena array;
  Arena message;
  internal::Timing timing;
};

// Seconds per piece.  As a redistribution does it: sweep after sweep over an array, each sweep visiting pieces `stride` apart and
// starting a piece (at least a line) after the one before, until every line was visited once.  Array and messages together are the
// working set.  Nothing if a sweep would have too few pieces to tell.
std::optional<double> measure_piece(const Bench& bench, Path path, Offset length, Offset stride, double working_set,
                                    const Machine& machine) {
  const internal::Sweeps sweeps = internal::sweeps_over(length, stride, working_set, machine.line_bytes);
  if (sweeps.pieces < 64 || sweeps.array_bytes(stride) > static_cast<Offset>(bench.array.size()) ||
      sweeps.message_bytes(length) > static_cast<Offset>(bench.message.size())) {
    return std::nullopt;
  }
  const auto element = layout::Element::create({{0, length - 1, 0, 1, {}}}, {.disp = 0, .period = stride});
  if (!element.is_ok()) return std::nullopt;
  const auto plan = path == Path::kPack ? transfer::Plan::gather(*element) : transfer::Plan::scatter(*element);
  if (!plan.is_ok()) return std::nullopt;
  const auto run = [&] { internal::run_sweeps(*plan, path, length, sweeps, bench.array, bench.message); };
  return internal::measure(run, bench.timing) / static_cast<double>(sweeps.pieces * sweeps.count);
}

std::vector<double> ratios_for(Offset length, bool quick) {
  if (length > 1024) return quick ? std::vector<double>{2} : std::vector<double>{1.5, 4};
  if (quick) return {2, 8, 64, 512};
  if (length > 64) return {1.25, 2, 4, 16, 64};
  return {1.5, 2, 4, 8, 16, 24, 128, 768};
}

Offset stride_for(Offset length, double ratio) {
  Offset stride = std::max(length + 1, static_cast<Offset>(static_cast<double>(length) * ratio));
  // Strides of many lines: an odd number of them, so that all sets of the caches are used.
  if (stride >= 512) stride = stride / 128 * 128 + 64;
  return stride;
}

std::vector<Offset> lengths_for(bool quick) {
  if (quick) return {4, 8, 12, 32, 64, 100, 256, 2048};
  return {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 256, 300, 512, 1000, 1024, 1280, 2048, 8192, 65536};
}

std::vector<double> working_sets_for(const Machine& machine, bool quick) {
  const auto size = [&machine](std::size_t level) {
    return static_cast<double>(machine.caches[std::min(level, machine.caches.size() - 1)].bytes);
  };
  const double last = std::min(size(2), 64e6);
  if (quick) return {size(0) / 2, size(1) / 2, last / 8};
  return {size(0) / 2, size(0) * 2, size(1) / 2, size(1) * 2, last / 6, last, 3 * last};
}

Regime measure_regime(const Bench& bench, Path path, double working_set, const Machine& machine, bool quick) {
  std::vector<Sample> samples;
  for (const Offset length : lengths_for(quick)) {
    Offset last = 0;
    for (const double ratio : ratios_for(length, quick)) {
      const Offset stride = stride_for(length, ratio);
      if (stride == last) continue;
      last = stride;
      const auto seconds = measure_piece(bench, path, length, stride, working_set, machine);
      if (seconds) samples.push_back({length, stride, *seconds});
    }
  }
  return fit_regime(samples, working_set, machine.line_bytes, machine.page_bytes);
}

// What it costs to start an inner loop: many short ones against the same pieces in a long one.
double measure_turn(const Bench& bench, Path path, const Machine& machine) {
  constexpr Offset kLength = 8;
  constexpr Offset kStride = 16;
  constexpr Offset kShort = 12;
  constexpr Offset kTurns = 256;
  const Offset outer = kShort * kStride + 64;
  const layout::FallsSet rows{
      {0, (kShort - 1) * kStride + kLength - 1, outer, kTurns, {{0, kLength - 1, kStride, kShort, {}}}}};
  const auto element = layout::Element::create(rows, {.disp = 0, .period = outer * kTurns});
  if (!element.is_ok()) return 0;
  const auto plan = path == Path::kPack ? transfer::Plan::gather(*element) : transfer::Plan::scatter(*element);
  if (!plan.is_ok()) return 0;
  std::byte* const from = path == Path::kPack ? bench.array.data() : bench.message.data();
  std::byte* const to = path == Path::kPack ? bench.message.data() : bench.array.data();
  const double many = internal::measure(
      [&] {
        plan->run({from, 0}, {to, 0}, {0, kLength * kShort * kTurns});
      },
      bench.timing);
  const double working_set = static_cast<double>(kTurns) * (static_cast<double>(outer) + kLength * kShort);
  const auto long_piece = measure_piece(bench, path, kLength, kStride, working_set, machine);
  if (!long_piece) return 0;
  return std::max(0.0, many / kTurns - *long_piece * kShort);
}

}  // namespace

Result<Machine> calibrate(const CalibrateOptions& options) {
  Machine machine = describe_machine();
  WEIR_TRY(Arena array, Arena::create(kArrayBytes));
  WEIR_TRY(Arena message, Arena::create(kMessageBytes));
  const Bench bench{std::move(array), std::move(message),
                    options.quick ? internal::Timing{0.002, 2} : internal::Timing{0.004, 2}};
  for (const Path path : {Path::kPack, Path::kUnpack}) {
    CopyModel& model = path == Path::kPack ? machine.pack : machine.unpack;
    for (const double working_set : working_sets_for(machine, options.quick)) {
      if (options.progress) {
        options.progress(concat(path == Path::kPack ? "packing" : "unpacking", ", working set ",
                                static_cast<Offset>(working_set / 1024), " KiB"));
      }
      if (!model.regimes.empty() && working_set <= model.regimes.back().working_set) continue;
      model.regimes.push_back(measure_regime(bench, path, working_set, machine, options.quick));
    }
    model.turn_seconds = measure_turn(bench, path, machine);
  }
  return machine;
}

}  // namespace weir::model
