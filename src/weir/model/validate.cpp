#include <weir/model/validate.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <weir/layout/language.h>
#include <weir/model/internal/cost.h>
#include <weir/model/internal/measure.h>
#include <weir/transfer/packing.h>

namespace weir::model {
namespace {

using internal::Arena;
using layout::Element;
using layout::Mapping;
using layout::Partition;

constexpr std::size_t kArrayBytes = std::size_t{1} << 28;
constexpr std::size_t kMessageBytes = std::size_t{1} << 28;
constexpr Offset kElem = 8;
constexpr char kAgainPack[] = "again, pack";
constexpr char kAgainUnpack[] = "again, unpack";

class Validator {
 public:
  Validator(const Machine& machine, const Arena& array, const Arena& message)
      : machine_(machine), array_(array), message_(message) {}

  /// Pieces of `length` bytes, `stride` apart, in as many sweeps as visit the whole array; all of it touches
  /// `working_set` bytes.
  Status strided(const std::string& group, Path path, Offset length, Offset stride, double working_set) {
    const internal::Sweeps sweeps = internal::sweeps_over(path, length, stride, working_set, machine_.line_bytes);
    if (sweeps.pieces < 64 || sweeps.array_bytes() > static_cast<Offset>(kArrayBytes)) return Status::ok();
    WEIR_TRY(const Element element, Element::create({{0, length - 1, 0, 1, {}}}, {.disp = 0, .period = stride}));
    WEIR_TRY(const Element bytes, Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1}));
    const layout::Window once{.file = {0, stride * sweeps.pieces}, .a = {}, .b = {}};
    // The address space of the element is the message, that of all bytes the array.
    const bool packs = path == Path::kPack;
    WEIR_TRY(const Mapping mapping,
             packs ? layout::intersect(bytes, element, once) : layout::intersect(element, bytes, once));
    WEIR_TRY(transfer::Plan plan, internal::plan_of(path, sweeps));
    const CopyPrediction predicted =
        predict_copy(machine_, features_of(mapping, path, machine_),
                     {working_set, static_cast<double>(sweeps.step) / static_cast<double>(length)});
    const auto count = static_cast<double>(sweeps.count);
    add({group,
         fmt::format("n={} stride={} working set={}K", length, stride, static_cast<Offset>(working_set / 1024)),
         path,
         static_cast<double>(sweeps.message_bytes()),
         static_cast<double>(length),
         0,
         count * predicted.seconds,
         count * predicted.formula_seconds,
         {}},
        [this, path, sweeps, plan = std::move(plan)] { internal::run_sweeps(plan, path, sweeps, array_, message_); });
    return Status::ok();
  }

  /// Everything that one rank packs for (unpacks from) all others, each message by a plan of its own.
  Status redistribution(const std::string& group, Path path, const std::string& from_text, const std::string& to_text) {
    WEIR_TRY(const Partition from, layout::parse(from_text));
    WEIR_TRY(const Partition to, layout::parse(to_text));
    WEIR_TRY(const std::vector<Mapping> mappings, mappings_of(path, from, to));
    const transfer::End end = path == Path::kPack ? transfer::End::kA : transfer::End::kB;
    std::vector<transfer::Packing> messages;
    std::vector<CopyFeatures> features;
    double bytes = 0;
    double pieces = 0;
    for (const Mapping& mapping : mappings) {
      transfer::Packing packing = transfer::Packing::create(mapping, end);
      if (end == transfer::End::kA ? packing.a_direct.has_value() : packing.b_direct.has_value()) continue;
      features.push_back(features_of(mapping, path, machine_));
      bytes += features.back().bytes;
      pieces += features.back().pieces;
      messages.push_back(std::move(packing));
    }
    if (messages.empty()) return Status::ok();
    CopyPrediction predicted;
    for (const CopyFeatures& feature : features) predicted += predict_copy(machine_, feature, {2 * bytes});
    add({group,
         fmt::format("{} -> {}", from_text, to_text),
         path,
         bytes,
         bytes / pieces,
         0,
         predicted.seconds,
         predicted.formula_seconds,
         {}},
        [this, path, messages = std::move(messages)] { run(messages, path); });
    return Status::ok();
  }

  /// The part that stays on rank 0, copied from array to array.
  Status local(const std::string& from_text, const std::string& to_text) {
    WEIR_TRY(const Partition from, layout::parse(from_text));
    WEIR_TRY(const Partition to, layout::parse(to_text));
    WEIR_TRY(const Mapping mapping, mapping_of(from, 0, to, 0));
    if (mapping.is_empty()) return Status::ok();
    WEIR_TRY(transfer::Plan plan, transfer::Plan::copy(mapping));
    const CopyFeatures features = features_of(mapping, Path::kCopy, machine_);
    const CopyPrediction predicted = predict_copy(machine_, features);
    add({"local copy",
         fmt::format("{} -> {}", from_text, to_text),
         Path::kCopy,
         features.bytes,
         features.mean_length,
         0,
         predicted.seconds,
         predicted.formula_seconds,
         {}},
        [this, plan = std::move(plan)] {
          plan.run({array_.data(), 0}, {message_.data(), 0}, {0, static_cast<Offset>(kArrayBytes)});
        });
    return Status::ok();
  }

  Result<std::vector<Point>> measure(const ValidateOptions& options) {
    WEIR_RETURN_IF_ERROR(rounds_.run({options.limit_seconds, options.quick ? 2 : 9, options.clock}, options.progress));
    for (std::size_t i = 0; i < points_.size(); ++i) {
      points_[i].measured_seconds = rounds_.seconds(i);
      points_[i].noise = rounds_.noise(i);
    }
    return std::move(points_);
  }

 private:
  void add(Point point, std::function<void()> job) {
    rounds_.add(std::move(job));
    points_.push_back(std::move(point));
  }

  static Result<Mapping> mapping_of(const Partition& from, Offset i, const Partition& to, Offset j) {
    WEIR_TRY(const Element a, from.element(i));
    WEIR_TRY(const Element b, to.element(j));
    layout::Window window;
    window.file = {0, from.period()};
    return layout::intersect(a, b, window);
  }

  static Result<std::vector<Mapping>> mappings_of(Path path, const Partition& from, const Partition& to) {
    const Offset peers = path == Path::kPack ? to.element_count() : from.element_count();
    std::vector<Mapping> mappings;
    for (Offset i = 0; i < peers; ++i) {
      WEIR_TRY(Mapping mapping, path == Path::kPack ? mapping_of(from, 0, to, i) : mapping_of(from, i, to, 0));
      if (!mapping.is_empty()) mappings.push_back(std::move(mapping));
    }
    return mappings;
  }

  void run(const std::vector<transfer::Packing>& messages, Path path) const {
    std::byte* at = message_.data();
    for (const transfer::Packing& message : messages) {
      const transfer::Range all{0, message.bytes};
      if (path == Path::kPack) {
        message.plan.run({array_.data(), 0}, {at, 0}, all);
      } else {
        message.plan.run({at, 0}, {array_.data(), 0}, all);
      }
      at += (message.bytes + 63) / 64 * 64;
    }
  }

  const Machine& machine_;
  const Arena& array_;
  const Arena& message_;
  internal::Rounds rounds_;
  std::vector<Point> points_;  // the i-th is the i-th job
};

// Not those of calibration: lengths and strides in between, and other working sets.
Status run_strided(Validator& validator, const Machine& machine, bool quick) {
  const std::vector<Offset> lengths =
      quick ? std::vector<Offset>{8, 20, 128} : std::vector<Offset>{2,  5,  8,   10,  16,  18,  28,  32,   44,   56,
                                                                    64, 72, 192, 220, 448, 768, 900, 1600, 4096, 20000};
  const std::vector<double> ratios = quick ? std::vector<double>{3} : std::vector<double>{1.75, 3, 6, 12, 40, 130, 512};
  const auto first = static_cast<double>(machine.caches.front().bytes);
  const auto last = std::min(static_cast<double>(machine.caches.back().bytes), 64e6);
  const std::vector<double> sets = quick ? std::vector<double>{first * 4}
                                         : std::vector<double>{first * 0.4, first * 4, last / 24, last / 5, 2.5 * last};
  for (const Path path : {Path::kPack, Path::kUnpack}) {
    const char* group = path == Path::kPack ? "strided pack" : "strided unpack";
    for (const double set : sets) {
      for (const Offset length : lengths) {
        for (const double ratio : ratios) {
          const auto stride = static_cast<Offset>(ratio * static_cast<double>(length));
          if (length > 1024 && ratio > 4) continue;
          WEIR_RETURN_IF_ERROR(validator.strided(group, path, length, std::max(stride, length + 1), set));
        }
      }
    }
  }
  return Status::ok();
}

// Some points that calibration measured: what differs there is the machine, since then.
Status run_again(Validator& validator, const Machine& machine) {
  constexpr std::size_t kEvery = 3;
  for (const Path path : {Path::kPack, Path::kUnpack}) {
    for (const Regime& regime : (path == Path::kPack ? machine.pack : machine.unpack).regimes) {
      for (std::size_t i = 0; i < regime.rows.size(); i += kEvery) {
        const CorrectionRow& row = regime.rows[i];
        if (row.knots.empty()) continue;
        const auto stride = static_cast<Offset>(row.knots[i / kEvery % row.knots.size()].stride);
        WEIR_RETURN_IF_ERROR(validator.strided(path == Path::kPack ? kAgainPack : kAgainUnpack, path, row.length,
                                               stride, regime.working_set));
      }
    }
  }
  return Status::ok();
}

std::string vector_layout(Offset elements, const std::string& dist, Offset ranks) {
  return fmt::format("hpf(shape=[{}], elem={}, dist=({}), grid=[{}])", elements, kElem, dist, ranks);
}

std::string cyclic(Offset width) { return fmt::format("CYCLIC({})", width); }

Status run_vectors(Validator& validator, Offset local_bytes, Offset ranks, Offset width) {
  constexpr Offset kTimes = 8;
  const Offset turn = ranks * width * kTimes * 15;
  const Offset elements = std::max<Offset>(1, local_bytes / kElem * ranks / turn) * turn;
  const std::string block = vector_layout(elements, "BLOCK", ranks);
  const std::string narrow = vector_layout(elements, cyclic(width), ranks);
  const std::string wide = vector_layout(elements, cyclic(width * kTimes), ranks);
  const std::string x = vector_layout(elements, cyclic(3 * width), ranks);
  const std::string y = vector_layout(elements, cyclic(5 * width), ranks);
  WEIR_RETURN_IF_ERROR(validator.redistribution("BCY pack", Path::kPack, block, narrow));
  WEIR_RETURN_IF_ERROR(validator.redistribution("CBL unpack", Path::kUnpack, narrow, block));
  WEIR_RETURN_IF_ERROR(validator.redistribution("KYY pack", Path::kPack, wide, narrow));
  WEIR_RETURN_IF_ERROR(validator.redistribution("XKX unpack", Path::kUnpack, narrow, wide));
  WEIR_RETURN_IF_ERROR(validator.redistribution("GEN pack", Path::kPack, x, y));
  WEIR_RETURN_IF_ERROR(validator.redistribution("GEN unpack", Path::kUnpack, x, y));
  return validator.local(x, y);
}

Status run_matrices(Validator& validator, Offset edge) {
  const auto matrix = [edge](const std::string& dist, const std::string& grid) {
    return fmt::format("hpf(shape=[{},{}], elem={}, dist=({}), grid=[{}])", edge, edge, kElem, dist, grid);
  };
  const std::string rows = matrix("BLOCK,*", "4,1");
  const std::string columns = matrix("*,BLOCK", "1,4");
  const std::string coarse = matrix("CYCLIC(32),CYCLIC(32)", "2,2");
  const std::string fine = matrix("CYCLIC(5),CYCLIC(5)", "2,2");
  for (const Path path : {Path::kPack, Path::kUnpack}) {
    const std::string group = path == Path::kPack ? "2-D pack" : "2-D unpack";
    WEIR_RETURN_IF_ERROR(validator.redistribution(group, path, rows, columns));
    WEIR_RETURN_IF_ERROR(validator.redistribution(group, path, columns, rows));
    WEIR_RETURN_IF_ERROR(validator.redistribution(group, path, coarse, fine));
    WEIR_RETURN_IF_ERROR(validator.redistribution(group, path, fine, coarse));
    WEIR_RETURN_IF_ERROR(validator.redistribution(group, path, rows, coarse));
  }
  return validator.local(coarse, fine);
}

double r_squared(const std::vector<double>& measured, const std::vector<double>& predicted) {
  double mean = 0;
  for (const double value : measured) mean += value / static_cast<double>(measured.size());
  double residual = 0;
  double variance = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    residual += (measured[i] - predicted[i]) * (measured[i] - predicted[i]);
    variance += (measured[i] - mean) * (measured[i] - mean);
  }
  return variance > 0 ? 1 - residual / variance : residual == 0 ? 1 : 0;
}

// The smallest value that at least 90 % do not exceed.
double percentile_90(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[(values.size() * 9 + 9) / 10 - 1];
}

std::vector<double> logarithms(std::vector<double> values) {
  for (double& value : values) value = std::log(value);
  return values;
}

}  // namespace

bool is_repeated(const Point& point) { return point.group == kAgainPack || point.group == kAgainUnpack; }

Accuracy accuracy_of(std::span<const Point> points, bool formula_only) {
  Accuracy accuracy;
  accuracy.points = points.size();
  if (points.empty()) return accuracy;
  std::vector<double> measured;
  std::vector<double> predicted;
  std::vector<double> errors;
  for (const Point& point : points) {
    measured.push_back(point.measured_seconds / point.bytes);
    predicted.push_back((formula_only ? point.formula_seconds : point.predicted_seconds) / point.bytes);
    errors.push_back(std::abs(predicted.back() - measured.back()) / measured.back());
  }
  std::vector<double> noises;
  for (const Point& point : points) {
    if (point.noise) noises.push_back(*point.noise);
  }
  if (noises.size() == points.size()) accuracy.p90_noise = percentile_90(std::move(noises));
  accuracy.r_squared = r_squared(measured, predicted);
  accuracy.log_r_squared = r_squared(logarithms(measured), logarithms(predicted));
  accuracy.max_error = *std::max_element(errors.begin(), errors.end());
  accuracy.p90_error = percentile_90(std::move(errors));
  return accuracy;
}

Result<std::vector<Point>> validate(const Machine& machine, const ValidateOptions& options) {
  if (machine.caches.empty() || machine.pack.regimes.empty() || machine.unpack.regimes.empty()) {
    return invalid_argument("validate: the machine is not calibrated");
  }
  WEIR_TRY(const Arena array, Arena::create(kArrayBytes));
  WEIR_TRY(const Arena message, Arena::create(kMessageBytes));
  Validator validator(machine, array, message);
  WEIR_RETURN_IF_ERROR(run_strided(validator, machine, options.quick));
  WEIR_RETURN_IF_ERROR(run_again(validator, machine));
  const std::vector<Offset> sizes =
      options.quick ? std::vector<Offset>{1 << 16} : std::vector<Offset>{96 << 10, 1 << 20, 6 << 20, 40 << 20};
  const std::vector<Offset> ranks = options.quick ? std::vector<Offset>{4} : std::vector<Offset>{2, 4, 7, 16, 48};
  const std::vector<Offset> widths = options.quick ? std::vector<Offset>{1} : std::vector<Offset>{1, 2, 5, 16, 50};
  for (const Offset size : sizes) {
    for (const Offset peers : ranks) {
      for (const Offset width : widths) WEIR_RETURN_IF_ERROR(run_vectors(validator, size, peers, width));
    }
  }
  for (const Offset edge : options.quick ? std::vector<Offset>{320} : std::vector<Offset>{320, 960, 1920, 3840}) {
    WEIR_RETURN_IF_ERROR(run_matrices(validator, edge));
  }
  Result<std::vector<Point>> points = validator.measure(options);
  if (!points.is_ok()) return Status{points.status().code(), fmt::format("validate: {}", points.status().message())};
  return points;
}

}  // namespace weir::model
