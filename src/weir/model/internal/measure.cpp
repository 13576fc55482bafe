#include <weir/model/internal/measure.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <time.h>

#include <fmt/format.h>

#include <weir/base/text.h>

namespace weir::model::internal {
namespace {

constexpr double kShortestRun = 1e-4;  // shorter ones are repeated: the clock itself takes time
constexpr double kLongRun = 8e-3;      // so much data that no cache would keep it until the next run
constexpr int kTries = 3;

// Of this thread: what others do with the processor in between does not count.
double now() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

namespace {

// One job, now.
double measure(const std::function<void()>& job) {
  double start = now();
  job();  // fills caches and page tables
  const double first = std::max(now() - start, 1e-9);
  if (first > kLongRun) return first;
  const int repeat = std::max(1, static_cast<int>(kShortestRun / first));
  double best = 1e300;
  for (int i = 0; i < kTries; ++i) {
    start = now();
    for (int j = 0; j < repeat; ++j) job();
    best = std::min(best, (now() - start) / repeat);
  }
  return best;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

std::size_t Rounds::add(std::function<void()> job) {
  jobs_.push_back(std::move(job));
  times_.emplace_back();
  return jobs_.size() - 1;
}

Status Rounds::run(const Limits& limits, const std::function<void(const std::string&)>& progress) {
  const auto end = limits.clock->now() + std::chrono::duration<double>(limits.seconds);
  for (int round = 0; round < limits.rounds; ++round) {
    if (progress) progress(concat("round ", round + 1, " of at most ", limits.rounds, ", ", jobs_.size(), " points"));
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (limits.clock->now() >= end) {
        if (round > 0) return Status::ok();
        return invalid_argument(fmt::format("only {} of {} points could be measured in {} seconds: allow more time", i,
                                            jobs_.size(), limits.seconds));
      }
      times_[i].push_back(measure(jobs_[i]));
    }
    ++complete_rounds_;
  }
  return Status::ok();
}

double Rounds::seconds(std::size_t job) const { return median(times_[job]); }

std::optional<double> Rounds::noise(std::size_t job) const {
  std::vector<double> halves[2];
  for (std::size_t i = 0; i < times_[job].size(); ++i) halves[i % 2].push_back(times_[job][i]);
  if (halves[1].empty()) return std::nullopt;
  return std::abs(median(halves[1]) / median(halves[0]) - 1);
}

Result<Arena> Arena::create(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  Arena arena;
  arena.size_ = (bytes + kPage - 1) / kPage * kPage;
  arena.data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, arena.size_)));
  if (!arena.data_) {
    return Status{ErrorCode::kIoError, concat("no memory for a measuring buffer of ", bytes, " bytes")};
  }
  std::memset(arena.data_.get(), 1, arena.size_);
  return arena;
}

Sweeps sweeps_over(Path path, Offset length, Offset stride, double working_set, Offset line_bytes) noexcept {
  Sweeps sweeps{length, stride, 0, 1, std::max(length, line_bytes)};
  if (stride - length >= line_bytes) sweeps.count = std::max<Offset>(1, stride / sweeps.step);
  // For every `stride` bytes of the array, so many on the other side.
  const double share =
      path == Path::kCopy ? 1 : static_cast<double>(sweeps.count * length) / static_cast<double>(stride);
  sweeps.pieces = static_cast<Offset>(working_set / (1 + share) / static_cast<double>(stride));
  return sweeps;
}

namespace {

// Two elements that have a piece in common for every `stride` bytes of either.
Result<transfer::Plan> plan_of_copy(const Sweeps& sweeps) {
  const Offset n = sweeps.length;
  const Offset period = 2 * sweeps.stride - n;
  WEIR_TRY(const layout::Element a,
           layout::Element::create({{0, sweeps.stride - 1, 0, 1, {}}}, {.disp = 0, .period = period}));
  WEIR_TRY(const layout::Element b,
           layout::Element::create({{0, n - 1, 0, 1, {}}, {sweeps.stride, period - 1, 0, 1, {}}},
                                   {.disp = 0, .period = period}));
  WEIR_TRY(const layout::Mapping mapping,
           layout::intersect(a, b, {.file = {0, period * sweeps.pieces}, .a = {}, .b = {}}));
  return transfer::Plan::copy(mapping);
}

}  // namespace

Result<transfer::Plan> plan_of(Path path, const Sweeps& sweeps) {
  if (path == Path::kCopy) return plan_of_copy(sweeps);
  WEIR_TRY(const layout::Element element,
           layout::Element::create({{0, sweeps.length - 1, 0, 1, {}}}, {.disp = 0, .period = sweeps.stride}));
  return path == Path::kPack ? transfer::Plan::gather(element) : transfer::Plan::scatter(element);
}

void run_sweeps(const transfer::Plan& plan, Path path, const Sweeps& sweeps, const Arena& array, const Arena& message) {
  const Offset bytes = sweeps.pieces * sweeps.length;
  for (Offset i = 0; i < sweeps.count; ++i) {
    std::byte* const strided = array.data() + i * sweeps.step;
    std::byte* const packed = message.data() + i * bytes;
    switch (path) {
      case Path::kPack: plan.run({strided, 0}, {packed, 0}, {0, bytes}); break;
      case Path::kUnpack: plan.run({packed, 0}, {strided, 0}, {0, bytes}); break;
      case Path::kCopy:
        plan.run({strided, 0}, {message.data() + i * sweeps.step, 0}, {0, sweeps.pieces * sweeps.stride});
        break;
    }
  }
}

void Arena::Free::operator()(std::byte* data) const noexcept { std::free(data); }

}  // namespace weir::model::internal
