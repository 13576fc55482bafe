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

class Validator {
 public:
  Validator(const Machine& machine, const Arena& array, const Arena& message, internal::Timing timing)
      : machine_(machine), array_(array), message_(message), timing_(timing) {}

  /// Pieces of `length` bytes, `stride` apart, in as many sweeps as visit the whole array; all of it touches `working_set` bytes.
  Status strided(Path path, Offset length, Offset stride, double working_set) {
    const internal::Sweeps sweeps = internal::sweeps_over(length, stride, working_set, machine_.line_bytes);
    if (sweeps.pieces < 64 || sweeps.array_bytes(stride) > static_cast<Offset>(kArrayBytes)) return Status::ok();
    WEIR_TRY(const Element element, Element::create({{0, length - 1, 0, 1, {}}}, {.disp = 0, .period = stride}));
    WEIR_TRY(const Element bytes, Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1}));
    const layout::Window once{.file = {0, stride * sweeps.pieces}, .a = {}, .b = {}};
    // The address space of the element is the message, that of all bytes the array.
    const bool packs = path == Path::kPack;
    WEIR_TRY(const Mapping mapping,
             packs ? layout::intersect(bytes, element, once) : layout::intersect(element, bytes, once));
    WEIR_TRY(const transfer::Plan plan, packs ? transfer::Plan::gather(element) : transfer::Plan::scatter(element));
    const CopyPrediction predicted =
        predict_copy(machine_, features_of(mapping, path, machine_),
                     {working_set, static_cast<double>(sweeps.step) / static_cast<double>(length)});
    const double seconds =
        internal::measure([&] { internal::run_sweeps(plan, path, length, sweeps, array_, message_); }, timing_);
    const auto count = static_cast<double>(sweeps.count);
    points.push_back(
        {packs ? "strided pack" : "strided unpack",
         fmt::format("n={} stride={} working set={}K", length, stride, static_cast<Offset>(working_set / 1024)), path,
         static_cast<double>(sweeps.message_bytes(length)), static_cast<double>(length), seconds,
         count * predicted.seconds, count * predicted.formula_seconds});
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
    const double seconds = internal::measure([&] { run(messages, path); }, timing_);
    points.push_back({group, fmt::format("{} -> {}", from_text, to_text), path, bytes, bytes / pieces, seconds,
                      predicted.seconds, predicted.formula_seconds});
    return Status::ok();
  }

  /// The part that stays on rank 0, copied from array to array.
  Status local(const std::string& from_text, const std::string& to_text) {
    WEIR_TRY(const Partition from, layout::parse(from_text));
    WEIR_TRY(const Partition to, layout::parse(to_text));
    WEIR_TRY(const Mapping mapping, mapping_of(from, 0, to, 0));
    if (mapping.is_empty()) return Status::ok();
    WEIR_TRY(const transfer::Plan plan, transfer::Plan::copy(mapping));
    const CopyFeatures features = features_of(mapping, Path::kCopy, machine_);
    const CopyPrediction predicted = predict_copy(machine_, features);
    const double seconds = internal::measure(
        [&] {
          plan.run({array_.data(), 0}, {message_.data(), 0}, {0, static_cast<Offset>(kArrayBytes)});
        },
        timing_);
    points.push_back({"local copy", fmt::format("{} -> {}", from_text, to_text), Path::kCopy, features.bytes,
                      features.mean_length, seconds, predicted.seconds, predicted.formula_seconds});
    return Status::ok();
  }

  std::vector<Point> points;

 private:
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
  internal::Timing timing_;
};

// Not those of calibration: lengths and strides in between, and other working sets.
Status run_strided(Validator& validator, const Machine& machine, bool quick) {
  const std::vector<Offset> lengths =
      quick ? std::vector<Offset>{8, 20, 128}
            : std::vector<Offset>{2, 5, 8, 10, 16, 20, 28, 32, 40, 64, 80, 192, 200, 448, 768, 900, 1600, 4096, 20000};
  const std::vector<double> ratios = quick ? std::vector<double>{3} : std::vector<double>{1.75, 3, 6, 12, 40, 130, 512};
  const auto first = static_cast<double>(machine.caches.front().bytes);
  const auto last = std::min(static_cast<double>(machine.caches.back().bytes), 64e6);
  const std::vector<double> sets = quick ? std::vector<double>{first * 4}
                                         : std::vector<double>{first * 0.4, first * 4, last / 24, last / 5, 2.5 * last};
  for (const Path path : {Path::kPack, Path::kUnpack}) {
    for (const double set : sets) {
      for (const Offset length : lengths) {
        for (const double ratio : ratios) {
          const auto stride = static_cast<Offset>(ratio * static_cast<double>(length));
          if (length > 1024 && ratio > 4) continue;
          WEIR_RETURN_IF_ERROR(validator.strided(path, length, std::max(stride, length + 1), set));
        }
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

std::vector<double> logarithms(std::vector<double> values) {
  for (double& value : values) value = std::log(value);
  return values;
}

}  // namespace

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
  std::sort(errors.begin(), errors.end());
  accuracy.r_squared = r_squared(measured, predicted);
  accuracy.log_r_squared = r_squared(logarithms(measured), logarithms(predicted));
  accuracy.max_error = errors.back();
  // The smallest error that at least 90 % of the points do not exceed.
  accuracy.p90_error = errors[(errors.size() * 9 + 9) / 10 - 1];
  return accuracy;
}

Result<std::vector<Point>> validate(const Machine& machine, const ValidateOptions& options) {
  if (machine.caches.empty() || machine.pack.regimes.empty() || machine.unpack.regimes.empty()) {
    return invalid_argument("validate: the machine is not calibrated");
  }
  WEIR_TRY(const Arena array, Arena::create(kArrayBytes));
  WEIR_TRY(const Arena message, Arena::create(kMessageBytes));
  Validator validator(machine, array, message, options.quick ? internal::Timing{0.002, 3} : internal::Timing{0.008, 5});
  const auto tell = [&options](const std::string& what) {
    if (options.progress) options.progress(what);
  };
  tell("strided copies");
  WEIR_RETURN_IF_ERROR(run_strided(validator, machine, options.quick));
  const std::vector<Offset> sizes =
      options.quick ? std::vector<Offset>{1 << 16} : std::vector<Offset>{96 << 10, 1 << 20, 6 << 20, 40 << 20};
  const std::vector<Offset> ranks = options.quick ? std::vector<Offset>{4} : std::vector<Offset>{2, 4, 7, 16, 48};
  const std::vector<Offset> widths = options.quick ? std::vector<Offset>{1} : std::vector<Offset>{1, 2, 5, 16, 50};
  for (const Offset size : sizes) {
    for (const Offset peers : ranks) {
      tell(fmt::format("redistributions of {} KiB per rank, {} ranks", size >> 10, peers));
      for (const Offset width : widths) WEIR_RETURN_IF_ERROR(run_vectors(validator, size, peers, width));
    }
  }
  tell("two-dimensional redistributions");
  for (const Offset edge : options.quick ? std::vector<Offset>{320} : std::vector<Offset>{320, 960, 1920, 3840}) {
    WEIR_RETURN_IF_ERROR(run_matrices(validator, edge));
  }
  return std::move(validator.points);
}

}  // namespace weir::model
