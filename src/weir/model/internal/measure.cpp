#include <weir/model/internal/measure.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <time.h>

#include <weir/base/text.h>

namespace weir::model::internal {
namespace {

constexpr double kShortestRun = 1e-4;  // shorter ones are repeated: the clock itself takes time

// Of this thread: what others do with the processor in between does not count.
double now() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double measure(const std::function<void()>& run, const Timing& timing) {
  using Clock = std::chrono::steady_clock;
  run();  // fills caches and page tables
  double start = now();
  run();
  const double once = std::max(now() - start, 1e-9);
  const int repeat = std::max(1, static_cast<int>(kShortestRun / once));
  double best = repeat == 1 ? once : 1e300;
  const auto end = Clock::now() + std::chrono::duration<double>(timing.budget_seconds);
  for (int i = 0; i < timing.least_runs || Clock::now() < end; ++i) {
    start = now();
    for (int j = 0; j < repeat; ++j) run();
    best = std::min(best, (now() - start) / repeat);
  }
  return best;
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

Sweeps sweeps_over(Offset length, Offset stride, double working_set, Offset line_bytes) noexcept {
  Sweeps sweeps;
  sweeps.step = std::max(length, line_bytes);
  if (stride - length >= line_bytes) sweeps.count = std::max<Offset>(1, stride / sweeps.step);
  // Of every `stride` bytes of the array, so many go into messages.
  const double share = static_cast<double>(sweeps.count * length) / static_cast<double>(stride);
  sweeps.pieces = static_cast<Offset>(working_set / (1 + share) / static_cast<double>(stride));
  return sweeps;
}

void run_sweeps(const transfer::Plan& plan, Path path, Offset length, const Sweeps& sweeps, const Arena& array,
                const Arena& message) {
  const Offset bytes = sweeps.pieces * length;
  for (Offset i = 0; i < sweeps.count; ++i) {
    std::byte* const strided = array.data() + i * sweeps.step;
    std::byte* const packed = message.data() + i * bytes;
    if (path == Path::kPack) {
      plan.run({strided, 0}, {packed, 0}, {0, bytes});
    } else {
      plan.run({packed, 0}, {strided, 0}, {0, bytes});
    }
  }
}

void Arena::Free::operator()(std::byte* data) const noexcept { std::free(data); }

}  // namespace weir::model::internal
