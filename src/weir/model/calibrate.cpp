#include <weir/model/calibrate.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <iterator>
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

Regime fit_regime(std::span<const Sample> all, double working_set, Offset line_bytes, Offset page_bytes) {
  std::vector<Sample> samples;
  std::copy_if(all.begin(), all.end(), std::back_inserter(samples), [](const Sample& s) { return !s.is_aligned; });
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
  std::map<Offset, CorrectionRow> rows;
  for (const Sample& sample : all) {
    const auto stride = static_cast<double>(sample.stride);
    const auto cost = internal::formula_cost(regime, {static_cast<double>(sample.length), stride}, machine);
    CorrectionRow& row = rows[sample.length];
    row.length = sample.length;
    (sample.is_aligned ? row.aligned : row.knots).push_back({stride, std::log(sample.piece_seconds / cost.formula())});
  }
  const auto by_stride = [](const Correction& x, const Correction& y) { return x.stride < y.stride; };
  for (auto& [length, row] : rows) {
    std::sort(row.knots.begin(), row.knots.end(), by_stride);
    std::sort(row.aligned.begin(), row.aligned.end(), by_stride);
    regime.rows.push_back(std::move(row));
  }
  return regime;
}

// ---- measuring -----------------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kArenaBytes = std::size_t{1} << 28;
constexpr Offset kLeastPieces = 64;  // of a sweep: fewer would measure how a plan starts

struct Arenas {
  Arena array;
  Arena message;
};

// A point to be measured.
struct Job {
  Path path = Path::kPack;
  double working_set = 0;
  internal::Sweeps sweeps;
  bool is_aligned = false;
  std::size_t number = 0;  // in the rounds
};

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

// Several of each kind of kernel; see cost.cpp.
std::vector<Offset> lengths_for(Path path, bool is_large, bool quick) {
  if (quick) return {4, 8, 12, 32, 40, 64, 100, 256, 2048};
  // Large working sets take long, and what the kernels do matters less; local copies are a small part of most
  // redistributions.
  if (is_large || path == Path::kCopy)
    return {2, 4, 8, 12, 16, 24, 32, 36, 40, 64, 128, 256, 300, 1000, 1024, 2048, 8192};
  return {1,  2,  3,   4,   6,   8,   12,  16,  20,   24,   32,   36,   40,   48,
          64, 80, 100, 128, 200, 256, 300, 512, 1000, 1024, 1280, 2048, 8192, 65536};
}

// Powers of two from which few sets of the caches are left.
std::vector<Offset> aligned_strides(bool quick) {
  return quick ? std::vector<Offset>{1024} : std::vector<Offset>{1024, 4096, 16384};
}

double last_cache(const Machine& machine) {
  return std::min(static_cast<double>(machine.caches[std::min<std::size_t>(2, machine.caches.size() - 1)].bytes), 64e6);
}

std::vector<double> working_sets_for(const Machine& machine, bool quick) {
  const auto size = [&machine](std::size_t level) {
    return static_cast<double>(machine.caches[std::min(level, machine.caches.size() - 1)].bytes);
  };
  const double last = last_cache(machine);
  std::vector<double> sets{size(0) / 2, size(0) * 2, size(1) / 2, size(1) * 2, last / 6, last / 2, last, 3 * last};
  if (quick) sets = {size(0) / 2, size(1) / 2, last / 8};
  // Unusual caches: only what ascends.
  std::vector<double> ascending;
  for (const double set : sets) {
    if (ascending.empty() || set > ascending.back()) ascending.push_back(set);
  }
  return ascending;
}

class Calibrator {
 public:
  Calibrator(const Machine& machine, const Arenas& arenas, bool quick)
      : machine_(machine), arenas_(arenas), quick_(quick) {}

  void add_points(Path path) {
    for (const double working_set : working_sets_for(machine_, quick_)) {
      const bool is_large = working_set > last_cache(machine_) / 3;
      for (const Offset length : lengths_for(path, is_large, quick_)) {
        Offset last = 0;
        for (const double ratio : ratios_for(length, quick_)) {
          const Offset stride = stride_for(length, ratio);
          if (stride != last) add_point(path, length, stride, working_set, false);
          last = stride;
        }
        for (const Offset stride : aligned_strides(quick_)) {
          if (stride >= 2 * length && length <= 1024) add_point(path, length, stride, working_set, true);
        }
      }
    }
    add_turns(path);
  }

  Status measure(const CalibrateOptions& options) {
    return rounds_.run({options.limit_seconds, options.quick ? 3 : 9, options.clock}, options.progress);
  }

  [[nodiscard]] CopyModel model_of(Path path) const {
    CopyModel model;
    for (const double working_set : working_sets_for(machine_, quick_)) {
      std::vector<Sample> samples;
      for (const Job& job : jobs_) {
        if (job.path != path || job.working_set != working_set) continue;
        const double pieces = static_cast<double>(job.sweeps.pieces * job.sweeps.count);
        samples.push_back({job.sweeps.length, job.sweeps.stride, rounds_.seconds(job.number) / pieces, job.is_aligned});
      }
      model.regimes.push_back(fit_regime(samples, working_set, machine_.line_bytes, machine_.page_bytes));
    }
    const auto turns = std::find_if(turns_.begin(), turns_.end(), [path](const Turns& t) { return t.path == path; });
    if (turns != turns_.end()) {
      model.turn_seconds =
          std::max(0.0, (rounds_.seconds(turns->many) - rounds_.seconds(turns->one)) / static_cast<double>(kTurns));
    }
    return model;
  }

 private:
  static constexpr Offset kTurns = 256;

  // The same pieces in many short loops and in a long one.
  struct Turns {
    Path path;
    std::size_t many;
    std::size_t one;
  };

  // As a redistribution does it: sweep after sweep over an array, each visiting pieces `stride` apart and starting a
  // piece (at least a line) after the one before, until every line was visited once.  Both sides together are the
  // working set.
  void add_point(Path path, Offset length, Offset stride, double working_set, bool is_aligned) {
    const internal::Sweeps sweeps = internal::sweeps_over(path, length, stride, working_set, machine_.line_bytes);
    const auto room = static_cast<Offset>(kArenaBytes);
    const Offset least = is_aligned ? kLeastPieces / 4 : kLeastPieces;
    if (sweeps.pieces < least || sweeps.array_bytes() > room || sweeps.message_bytes() > room) return;
    const auto plan = internal::plan_of(path, sweeps);
    if (!plan.is_ok()) return;
    const std::size_t number = rounds_.add([this, plan = *plan, path, sweeps] {
      internal::run_sweeps(plan, path, sweeps, arenas_.array, arenas_.message);
    });
    jobs_.push_back({path, working_set, sweeps, is_aligned, number});
  }

  // What it costs to start an inner loop.
  void add_turns(Path path) {
    constexpr Offset kLength = 8;
    constexpr Offset kStride = 16;
    constexpr Offset kShort = 12;
    if (path == Path::kCopy) return;
    const Offset outer = kShort * kStride + 64;
    const layout::FallsSet rows{
        {0, (kShort - 1) * kStride + kLength - 1, outer, kTurns, {{0, kLength - 1, kStride, kShort, {}}}}};
    const layout::FallsSet row{{0, kLength - 1, kStride, kShort * kTurns, {}}};
    const auto job_of = [&](const layout::FallsSet& falls, Offset period) -> std::optional<std::size_t> {
      const auto element = layout::Element::create(falls, {.disp = 0, .period = period});
      if (!element.is_ok()) return std::nullopt;
      const auto plan = path == Path::kPack ? transfer::Plan::gather(*element) : transfer::Plan::scatter(*element);
      if (!plan.is_ok()) return std::nullopt;
      const bool packs = path == Path::kPack;
      return rounds_.add([this, plan = *plan, packs] {
        std::byte* const from = packs ? arenas_.array.data() : arenas_.message.data();
        std::byte* const to = packs ? arenas_.message.data() : arenas_.array.data();
        plan.run({from, 0}, {to, 0}, {0, kLength * kShort * kTurns});
      });
    };
    const auto many = job_of(rows, outer * kTurns);
    const auto one = job_of(row, kStride * kShort * kTurns);
    if (many && one) turns_.push_back({path, *many, *one});
  }

  const Machine& machine_;
  const Arenas& arenas_;
  bool quick_;
  internal::Rounds rounds_;
  std::vector<Job> jobs_;
  std::vector<Turns> turns_;
};

}  // namespace

Result<Machine> calibrate(const CalibrateOptions& options) {
  Machine machine = describe_machine();
  WEIR_TRY(Arena array, Arena::create(kArenaBytes));
  WEIR_TRY(Arena message, Arena::create(kArenaBytes));
  const Arenas arenas{std::move(array), std::move(message)};
  Calibrator calibrator(machine, arenas, options.quick);
  for (const Path path : {Path::kPack, Path::kUnpack, Path::kCopy}) calibrator.add_points(path);
  const Status status = calibrator.measure(options);
  if (!status.is_ok()) return Status{status.code(), concat("calibrate: ", status.message())};
  machine.pack = calibrator.model_of(Path::kPack);
  machine.unpack = calibrator.model_of(Path::kUnpack);
  machine.copy = calibrator.model_of(Path::kCopy);
  return machine;
}

}  // namespace weir::model
