// Two choices that redist makes, shown rather than asserted.
//
//   BM_PacketStride   BLOCK to CYCLIC(1): a source is dealt word by word to P packets.  If packets start a power of two apart, the lines that
//                     are being filled compete for a few sets of the cache; an odd number of lines apart (what redist uses; the
//                     condition is lcm(stride, lines of the cache) >= stride * P), they do not.  `power_over_odd` is the ratio of the
//                     times.  `plan_power_over_odd`: the same packets, each filled by a plan of its own, one after the other, as redist does.
//                     `dealing_over_plan`: dealing to all packets at once against that; below 1, dealing is faster.
//   BM_LocalPath      What stays on a rank, from array to array, against through a packed buffer.  `packed_over_direct`: above 1, direct
//                     is faster.
//
// Variants take turns; ratios of processor time are medians over turns.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include <time.h>

#include <benchmark/benchmark.h>

#include <weir/layout/language.h>
#include <weir/layout/mapping.h>
#include <weir/model/internal/measure.h>
#include <weir/transfer/packing.h>
#include <weir/transfer/plan.h>

namespace weir::model {
namespace {

constexpr Offset kLine = 64;
constexpr Offset kWord = 8;

// Of this thread: what others do with the processor in between does not count.
double now() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(const std::function<void()>& run) {
  const double start = now();
  run();
  return now() - start;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Word i of the source goes to packet i mod P.
void deal(const std::byte* source, std::byte* packets, Offset stride, Offset count, Offset words) {
  for (Offset i = 0; i < words; ++i) {
    for (Offset p = 0; p < count; ++p) {
      std::memcpy(packets + p * stride + i * kWord, source + (i * count + p) * kWord, kWord);
    }
  }
}

void BM_PacketStride(benchmark::State& state) {
  const Offset count = state.range(0);
  const Offset bytes = state.range(1);
  const Offset words = bytes / kWord;
  const Offset power = bytes;
  const Offset odd = bytes + kLine;
  auto source = internal::Arena::create(static_cast<std::size_t>(count * bytes));
  auto packets = internal::Arena::create(static_cast<std::size_t>(count * odd));
  const auto element = layout::Element::create({{0, kWord - 1, 0, 1, {}}}, {.disp = 0, .period = count * kWord});
  if (!source.is_ok() || !packets.is_ok() || !element.is_ok()) return state.SkipWithError("no memory");
  const auto plan = transfer::Plan::gather(*element);
  if (!plan.is_ok()) return state.SkipWithError("no plan");
  const auto deal_at = [&](Offset stride) {
    return seconds_of([&] { deal(source->data(), packets->data(), stride, count, words); });
  };
  const auto plan_at = [&](Offset stride) {
    return seconds_of([&] {
      for (Offset p = 0; p < count; ++p) {
        plan->run({source->data() + p * kWord, 0}, {packets->data() + p * stride, 0}, {0, bytes});
      }
    });
  };
  std::vector<double> dealt;
  std::vector<double> planned;
  std::vector<double> gain;
  for ([[maybe_unused]] auto turn : state) {
    const double at_odd = deal_at(odd);
    dealt.push_back(deal_at(power) / at_odd);
    const double plan_at_odd = plan_at(odd);
    planned.push_back(plan_at(power) / plan_at_odd);
    gain.push_back(at_odd / plan_at_odd);
  }
  state.counters["power_over_odd"] = median(dealt);
  state.counters["plan_power_over_odd"] = median(planned);
  state.counters["dealing_over_plan"] = median(gain);
}
BENCHMARK(BM_PacketStride)
    ->ArgNames({"packets", "bytes"})
    ->ArgsProduct({{4, 8, 16, 32, 64}, {Offset{1} << 15, Offset{1} << 18}})
    ->Unit(benchmark::kMillisecond);

std::string vector_layout(Offset elements, Offset width, Offset ranks) {
  return concat("hpf(shape=[", elements, "], elem=8, dist=(CYCLIC(", width, ")), grid=[", ranks, "])");
}

void BM_LocalPath(benchmark::State& state) {
  const Offset width = state.range(0);
  const Offset ranks = 4;
  const Offset elements = state.range(1) / kWord * ranks / (15 * width * ranks) * (15 * width * ranks);
  const auto from = layout::parse(vector_layout(elements, 3 * width, ranks));
  const auto to = layout::parse(vector_layout(elements, 5 * width, ranks));
  if (!from.is_ok() || !to.is_ok()) return state.SkipWithError("no layout");
  const auto mapping =
      layout::intersect(*from->element(0), *to->element(0), {.file = {0, from->period()}, .a = {}, .b = {}});
  if (!mapping.is_ok()) return state.SkipWithError("no mapping");
  const auto direct = transfer::Plan::copy(*mapping);
  const transfer::Packing pack = transfer::Packing::create(*mapping, transfer::End::kA);
  const transfer::Packing unpack = transfer::Packing::create(*mapping, transfer::End::kB);
  const auto bytes = static_cast<std::size_t>(elements / ranks * kWord);
  auto source = internal::Arena::create(bytes);
  auto target = internal::Arena::create(bytes);
  auto buffer = internal::Arena::create(bytes);
  if (!direct.is_ok() || !source.is_ok() || !target.is_ok() || !buffer.is_ok()) return state.SkipWithError("no memory");
  std::vector<double> ratios;
  for ([[maybe_unused]] auto turn : state) {
    const double straight = seconds_of([&] {
      direct->run({source->data(), 0}, {target->data(), 0}, {0, static_cast<Offset>(bytes)});
    });
    const double around = seconds_of([&] {
      pack.plan.run({source->data(), 0}, {buffer->data(), 0}, {0, pack.bytes});
      unpack.plan.run({buffer->data(), 0}, {target->data(), 0}, {0, unpack.bytes});
    });
    ratios.push_back(around / straight);
  }
  state.counters["packed_over_direct"] = median(ratios);
}
BENCHMARK(BM_LocalPath)
    ->ArgNames({"width", "bytes"})
    ->ArgsProduct({{1, 4, 16, 64}, {Offset{1} << 17, Offset{1} << 21, Offset{1} << 25}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace weir::model
