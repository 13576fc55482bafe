// What the algebra costs, and that it does not depend on sizes.
//
//   layout_bench             Google Benchmark: every operation on typical patterns
//   layout_bench --ratios    time at each array edge as a ratio to the smallest; fails if the largest takes twice as long
//
// Times are for reading; only ratios within one run and counts (nodes, allocations) are judged.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include <weir/layout/binary.h>
#include <weir/layout/language.h>
#include <weir/layout/mapping.h>
#include <weir/layout/match.h>

namespace {

std::size_t allocations = 0;  // the benchmarks run on one thread
bool failed = false;

}  // namespace

// Not inlined: the compiler would see malloc() meet another delete and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace weir::layout {
namespace {

constexpr Dist kWhole{Dist::Kind::kWhole, 0};
constexpr Dist kBlock{Dist::Kind::kBlock, 0};

/// Benchmarks describe fixed patterns: an error is a mistake in this file.
template <typename T>
T must(Result<T> result) {
  if (result.is_ok()) return std::move(result).value();
  std::fprintf(stderr, "layout_bench: %s\n", result.status().message().c_str());
  std::abort();
}

Element matrix_element(Offset edge, std::vector<Dist> dist, std::vector<Offset> grid, Offset index) {
  const Hpf hpf{.shape = {edge, edge}, .elem = 4, .dist = std::move(dist), .grid = std::move(grid)};
  return must(must(Partition::create(hpf)).element(index));
}

Element column_block(Offset edge) { return matrix_element(edge, {kWhole, kBlock}, {1, 4}, 1); }
Element block_block(Offset edge) { return matrix_element(edge, {kBlock, kBlock}, {2, 2}, 3); }
Element cyclic_cyclic(Offset edge) {
  return matrix_element(edge, {{Dist::Kind::kCyclic, 3}, {Dist::Kind::kCyclic, 5}}, {2, 2}, 1);
}
Element stripe_element(Offset index) {
  return must(must(Partition::create(Stripe{.unit = 64 * 1024, .over = 4})).element(index));
}
Element record_field() { return must(Element::create({{0, 3, 0, 1, {}}}, {.disp = 0, .period = 12})); }
Element three_levels() {
  return must(Element::create({{64, 4095, 8192, 1000, {{0, 255, 512, 8, {{8, 15, 32, 8, {}}}}}}},
                              {.disp = 100, .period = 8192 * 1001}));
}

struct Pair {
  const char* name;
  Element (*a)(Offset edge);
  Element (*b)(Offset edge);
};

constexpr Pair kPairs[] = {
    {"(*,BLOCK) x stripe(64K)", column_block, [](Offset) { return stripe_element(1); }},
    {"(CYCLIC(3),CYCLIC(5)) x (BLOCK,BLOCK)", cyclic_cyclic, block_block},
};

void run_intersect(benchmark::State& state, const Pair& pair) {
  const Offset edge = Offset{1} << state.range(0);
  const Element a = pair.a(edge);
  const Element b = pair.b(edge);
  for (auto _ : state) benchmark::DoNotOptimize(must(intersect(a, b)));
  state.counters["nodes"] = static_cast<double>(must(intersect(a, b)).node_count());
}

void run_project(benchmark::State& state, const Pair& pair) {
  const Offset edge = Offset{1} << state.range(0);
  const Mapping mapping = must(intersect(pair.a(edge), pair.b(edge)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(mapping.file_falls());
    benchmark::DoNotOptimize(mapping.a_falls());
    benchmark::DoNotOptimize(mapping.b_falls());
  }
}

void run_record_field(benchmark::State& state) {
  const Element field = record_field();
  const Element stripe = stripe_element(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(must(intersect(field, stripe)));
  state.counters["nodes"] = static_cast<double>(must(intersect(field, stripe)).node_count());
}

/// Calls look_up(i) in the timed loop and reports what it allocated, which must be nothing.
template <typename LookUp>
void run_without_allocation(benchmark::State& state, LookUp look_up) {
  Offset i = 0;
  const std::size_t before = allocations;
  for (auto _ : state) benchmark::DoNotOptimize(look_up(i++));
  const std::size_t made = allocations - before;
  state.counters["allocations"] = static_cast<double>(made);
  if (made != 0) {
    failed = true;
    state.SkipWithError("the look-up allocates");
  }
}

void run_map(benchmark::State& state) {
  const Element element = three_levels();
  run_without_allocation(state, [&](Offset i) { return element.map(172 + i * 8192 % 8192000); });
}

void run_map_next(benchmark::State& state) {
  const Element element = three_levels();
  run_without_allocation(state, [&](Offset i) { return element.map_next(i * 7919); });
}

void run_unmap(benchmark::State& state) {
  const Element element = three_levels();
  run_without_allocation(state, [&](Offset i) { return element.unmap(i * 7919); });
}

void run_map_between(benchmark::State& state) {
  const Element view = column_block(Offset{1} << 20);
  const Element subfile = stripe_element(1);
  run_without_allocation(state, [&](Offset i) { return map_between(view, i * 7919, subfile); });
}

void run_segments(benchmark::State& state) {
  const Element element = three_levels();
  SegmentCursor cursor(element, 0, element.limit());
  run_without_allocation(state, [&](Offset) { return cursor.next(); });
}

void run_pieces(benchmark::State& state, Order order) {
  const Element view = column_block(Offset{1} << 24);
  const Element subfile = block_block(Offset{1} << 24);
  PieceCursor cursor(view, subfile, order);
  std::size_t pieces = 0;
  for (auto _ : state) {
    auto piece = cursor.next();
    if (!piece) {
      cursor = PieceCursor(view, subfile, order);
      piece = cursor.next();
    }
    benchmark::DoNotOptimize(piece);
    ++pieces;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(pieces));
}

void run_first_piece(benchmark::State& state) {
  const Element view = column_block(Offset{1} << 24);
  const Element subfile = block_block(Offset{1} << 24);
  const Window window{.file = {}, .a = {123456789, 123456789 + 65536}, .b = {}};
  for (auto _ : state) benchmark::DoNotOptimize(PieceCursor(view, subfile, Order::kA, window).next());
}

void run_match(benchmark::State& state) {
  const Element view = column_block(Offset{1} << state.range(0));
  const Partition layout = must(Partition::create(Stripe{.unit = 64 * 1024, .over = 4}));
  for (auto _ : state) benchmark::DoNotOptimize(must(match(view, layout)));
}

constexpr std::string_view kText = "hpf(shape=[4096,4096], elem=8, dist=(CYCLIC(3),BLOCK), grid=[2,2])";

void run_parse_and_print(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(print(must(parse(kText))));
}

void run_encode_and_decode(benchmark::State& state) {
  const Partition partition = must(parse(kText));
  for (auto _ : state) benchmark::DoNotOptimize(must(decode_partition(encode(partition))));
}

void run_element(benchmark::State& state) {
  const Partition partition = must(parse(kText));
  for (auto _ : state) benchmark::DoNotOptimize(must(partition.element(3)));
}

void register_all() {
  for (const Pair& pair : kPairs) {
    for (const int exponent : {8, 12, 16, 20, 24, 28, 30}) {
      benchmark::RegisterBenchmark((std::string("intersect ") + pair.name).c_str(), run_intersect, pair)->Arg(exponent);
    }
    for (const int exponent : {8, 30}) {
      benchmark::RegisterBenchmark((std::string("project ") + pair.name).c_str(), run_project, pair)->Arg(exponent);
    }
  }
  benchmark::RegisterBenchmark("intersect 12-byte record field x stripe(64K)", run_record_field)->DenseRange(0, 3);
  benchmark::RegisterBenchmark("map, 3 levels", run_map);
  benchmark::RegisterBenchmark("map_next, 3 levels", run_map_next);
  benchmark::RegisterBenchmark("unmap, 3 levels", run_unmap);
  benchmark::RegisterBenchmark("map_between, 2 levels", run_map_between);
  benchmark::RegisterBenchmark("next segment, 3 levels", run_segments);
  benchmark::RegisterBenchmark("next piece, file order", run_pieces, Order::kFile);
  benchmark::RegisterBenchmark("next piece, order of a", run_pieces, Order::kA);
  benchmark::RegisterBenchmark("next piece, order of b", run_pieces, Order::kB);
  benchmark::RegisterBenchmark("first piece of a 64K access", run_first_piece);
  benchmark::RegisterBenchmark("match (*,BLOCK) x stripe(64K)", run_match)->Arg(8)->Arg(30);
  benchmark::RegisterBenchmark("parse and print", run_parse_and_print);
  benchmark::RegisterBenchmark("encode and decode", run_encode_and_decode);
  benchmark::RegisterBenchmark("element of an hpf partition", run_element);
}

double seconds_of(const std::function<void()>& work, int times) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / times;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Measured {
  std::string name;
  Offset exponent;
  std::size_t nodes;
  std::function<void()> work;
  std::vector<double> seconds;
};

/// All edges in turn, many times over, so that a slow moment of the machine hits every edge alike.
void measure(std::vector<Measured>& cases) {
  constexpr int kRounds = 41;
  constexpr int kTimes = 20;
  for (Measured& c : cases) seconds_of(c.work, kTimes);  // warm up
  for (int round = 0; round < kRounds; ++round) {
    for (Measured& c : cases) c.seconds.push_back(seconds_of(c.work, kTimes));
  }
}

std::vector<Measured> edges_of(const Pair& pair, bool projects) {
  std::vector<Measured> cases;
  for (const int exponent : {8, 12, 16, 20, 24, 28, 30}) {
    const Element a = pair.a(Offset{1} << exponent);
    const Element b = pair.b(Offset{1} << exponent);
    const Mapping mapping = must(intersect(a, b));
    std::function<void()> work = [a, b] { benchmark::DoNotOptimize(must(intersect(a, b))); };
    if (projects) {
      work = [mapping] {
        benchmark::DoNotOptimize(mapping.file_falls());
        benchmark::DoNotOptimize(mapping.a_falls());
        benchmark::DoNotOptimize(mapping.b_falls());
      };
    }
    cases.push_back({std::string(projects ? "project " : "intersect ") + pair.name,
                     exponent,
                     mapping.node_count(),
                     std::move(work),
                     {}});
  }
  return cases;
}

/// True if the largest edge takes less than twice as long as the smallest.
bool print_ratios(std::vector<Measured> cases) {
  measure(cases);
  std::printf("%s\n  edge   nodes   median us   ratio to the smallest edge\n", cases.front().name.c_str());
  const double smallest = median(cases.front().seconds);
  double ratio = 1;
  for (const Measured& c : cases) {
    const double seconds = median(c.seconds);
    ratio = seconds / smallest;
    std::printf("  2^%-4lld %6zu %11.2f %8.2f\n", static_cast<long long>(c.exponent), c.nodes, seconds * 1e6, ratio);
  }
  std::printf("  largest / smallest = %.2f (target: below 2)\n\n", ratio);
  return ratio < 2;
}

bool run_ratios() {
  bool good = true;
  for (const Pair& pair : kPairs) {
    for (const bool projects : {false, true}) good = print_ratios(edges_of(pair, projects)) && good;
  }
  return good;
}

}  // namespace
}  // namespace weir::layout

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--ratios") return weir::layout::run_ratios() ? 0 : 1;
  weir::layout::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return failed ? 1 : 0;
}
