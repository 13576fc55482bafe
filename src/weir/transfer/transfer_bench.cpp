// How fast plans run, as ratios to what one would write by hand for the one case: see docs/performance.md.
//
//   transfer_bench [--quick] [--json] [text]      only cases whose name holds the text
//
// A rival that comes in several variants (plain, unrolled, vector instructions, around the caches) is the fastest of
// them.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include <sys/mman.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <weir/base/text.h>
#include <weir/transfer/plan.h>
#include <weir/transfer/testing/ratio.h>

namespace weir::transfer {
namespace {

using internal::Line;
using internal::Ratio;
using internal::RatioOptions;
using internal::Rival;
using layout::Element;
using layout::FallsSet;

using Word = std::uint64_t;

// Memory that is mapped and touched before anything is measured.
class Buffer {
 public:
  explicit Buffer(Offset size) : size_(static_cast<std::size_t>(size)) {
    void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
      std::fprintf(stderr, "transfer_bench: no memory for a buffer of %zu bytes\n", size_);
      std::exit(2);
    }
    data_ = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < size_; ++i) data_[i] = static_cast<std::byte>(i * 31 >> 3);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { ::munmap(data_, size_); }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] Word* words() const { return reinterpret_cast<Word*>(data_); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::byte* data_;
};

template <typename T>
T expect(Result<T> result) {
  if (!result.is_ok()) {
    std::fprintf(stderr, "transfer_bench: %s\n", std::string(result.status().message()).c_str());
    std::exit(2);
  }
  return std::move(result).value();
}

Element element_of(FallsSet set, Offset period) {
  return expect(Element::create(std::move(set), {.disp = 0, .period = period}));
}

constexpr layout::Budget kLargeBudget{.runs = std::size_t{1} << 20, .steps = std::size_t{1} << 24};

class Bench {
 public:
  Bench(RatioOptions options, std::string filter) : options_(options), filter_(std::move(filter)) {}

  [[nodiscard]] bool wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }
  [[nodiscard]] const std::vector<Line>& lines() const { return lines_; }
  [[nodiscard]] const RatioOptions& options() const { return options_; }

  void add(Line line) { lines_.push_back(std::move(line)); }

  /// Measures `ours` against the best of `rivals`, after checking that each of them writes the same bytes.
  void measure(const std::string& name, double wanted, const Buffer& target, const std::function<void()>& ours,
               const std::vector<Rival>& rivals) {
    check_equal(name, target, ours, rivals);
    const Rival& rival = best_of(rivals, options_);
    add({name, rival.name, compare(ours, rival.run, options_), wanted});
  }

 private:
  static void check_equal(const std::string& name, const Buffer& target, const std::function<void()>& ours,
                          const std::vector<Rival>& rivals) {
    std::memset(target.data(), 0x5a, target.size());
    ours();
    const std::vector<std::byte> expected(target.data(), target.data() + target.size());
    for (const Rival& rival : rivals) {
      std::memset(target.data(), 0x5a, target.size());
      rival.run();
      if (std::memcmp(target.data(), expected.data(), expected.size()) == 0) continue;
      std::fprintf(stderr, "transfer_bench: %s: '%s' and the plan write different bytes\n", name.c_str(),
                   rival.name.c_str());
      std::exit(1);
    }
  }

  RatioOptions options_;
  std::string filter_;
  std::vector<Line> lines_;
};

std::string size_name(Offset bytes) {
  return bytes >= (1 << 20) ? concat(bytes >> 20, " MiB")
         : bytes >= 1024    ? concat(bytes >> 10, " KiB")
                            : concat(bytes, " B");
}

void contiguous(Bench& bench) {
  const Plan plan = expect(Plan::gather(element_of({{0, 0, 0, 1, {}}}, 1)));
  for (const Offset bytes : {Offset{1} << 12, Offset{1} << 20, Offset{1} << 26}) {
    const std::string name = concat("contiguous, ", size_name(bytes));
    if (!bench.wants(name)) continue;
    const Buffer source(bytes);
    const Buffer target(bytes);
    bench.measure(name, 0.97, target,
                  [&] {
                    plan.run({source.data(), 0}, {target.data(), 0}, {0, bytes});
                  },
                  {{"memcpy", [&] { std::memcpy(target.data(), source.data(), target.size()); }}});
  }
}

// ---- 8-byte blocks at a constant stride: what one writes for just this case ----

// Ours is compiled for every machine and chooses when it runs; the rivals may use what this machine has.
#if defined(__x86_64__)
#define WEIR_BENCH_AVX2 __attribute__((target("avx2")))
#else
#define WEIR_BENCH_AVX2
#endif

template <Offset Ratio>
WEIR_BENCH_AVX2 void pack_plain(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i < count; ++i) target[i] = source[i * Ratio];
}

template <Offset Ratio>
void pack_unrolled(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i + 8 <= count; i += 8, source += 8 * Ratio, target += 8) {
    const Word a = source[0], b = source[Ratio], c = source[2 * Ratio], d = source[3 * Ratio];
    const Word e = source[4 * Ratio], f = source[5 * Ratio], g = source[6 * Ratio], h = source[7 * Ratio];
    target[0] = a, target[1] = b, target[2] = c, target[3] = d;
    target[4] = e, target[5] = f, target[6] = g, target[7] = h;
  }
}

template <Offset Ratio>
void pack_prefetching(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i < count; ++i) {
    __builtin_prefetch(source + std::min(count - 1, i + 16) * Ratio);
    target[i] = source[i * Ratio];
  }
}

template <Offset Ratio>
void unpack_plain(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i < count; ++i) target[i * Ratio] = source[i];
}

template <Offset Ratio>
void unpack_unrolled(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i + 8 <= count; i += 8, source += 8, target += 8 * Ratio) {
    const Word a = source[0], b = source[1], c = source[2], d = source[3];
    const Word e = source[4], f = source[5], g = source[6], h = source[7];
    target[0] = a, target[Ratio] = b, target[2 * Ratio] = c, target[3 * Ratio] = d;
    target[4 * Ratio] = e, target[5 * Ratio] = f, target[6 * Ratio] = g, target[7 * Ratio] = h;
  }
}

template <Offset Ratio>
void unpack_prefetching(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i < count; ++i) {
    __builtin_prefetch(target + std::min(count - 1, i + 16) * Ratio, 1);
    target[i * Ratio] = source[i];
  }
}

#if defined(__x86_64__)

template <Offset Ratio>
WEIR_BENCH_AVX2 inline __m256i load_four(const Word* source) {
  if constexpr (Ratio == 2) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + 3));
    return _mm256_permute4x64_epi64(_mm256_blend_epi32(low, high, 0b11001100), 0b11'01'10'00);
  } else {
    const auto pair = [](const Word* from) {
      return _mm_castpd_si128(_mm_loadh_pd(_mm_load_sd(reinterpret_cast<const double*>(from)),
                                           reinterpret_cast<const double*>(from + Ratio)));
    };
    return _mm256_set_m128i(pair(source + 2 * Ratio), pair(source));
  }
}

template <Offset Ratio>
WEIR_BENCH_AVX2 void pack_vectors(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i + 8 <= count; i += 8, source += 8 * Ratio, target += 8) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), load_four<Ratio>(source));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + 4), load_four<Ratio>(source + 4 * Ratio));
  }
}

template <Offset Ratio>
WEIR_BENCH_AVX2 void pack_streaming(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i + 8 <= count; i += 8, source += 8 * Ratio, target += 8) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(target), load_four<Ratio>(source));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(target + 4), load_four<Ratio>(source + 4 * Ratio));
  }
  _mm_sfence();
}

template <Offset Ratio>
WEIR_BENCH_AVX2 void pack_gathering(const Word* source, Word* target, Offset count) {
  const __m256i offsets = _mm256_set_epi64x(3 * Ratio, 2 * Ratio, Ratio, 0);
  for (Offset i = 0; i + 4 <= count; i += 4, source += 4 * Ratio, target += 4) {
    const __m256i four = _mm256_i64gather_epi64(reinterpret_cast<const long long*>(source), offsets, 8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), four);
  }
}

template <Offset Ratio>
WEIR_BENCH_AVX2 void unpack_vectors(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i + 4 <= count; i += 4, source += 4, target += 4 * Ratio) {
    const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
    const __m128d low = _mm_castsi128_pd(_mm256_castsi256_si128(four));
    const __m128d high = _mm_castsi128_pd(_mm256_extracti128_si256(four, 1));
    auto* to = reinterpret_cast<double*>(target);
    _mm_storel_pd(to, low);
    _mm_storeh_pd(to + Ratio, low);
    _mm_storel_pd(to + 2 * Ratio, high);
    _mm_storeh_pd(to + 3 * Ratio, high);
  }
}

template <Offset Ratio>
void unpack_streaming(const Word* source, Word* target, Offset count) {
  for (Offset i = 0; i < count; ++i) {
    _mm_stream_si64(reinterpret_cast<long long*>(target + i * Ratio), static_cast<long long>(source[i]));
  }
  _mm_sfence();
}

#endif

struct Loop {
  const char* name;
  void (*run)(const Word*, Word*, Offset);
};

template <Offset Ratio>
std::vector<Loop> pack_loops() {
  std::vector<Loop> loops{{"plain loop", pack_plain<Ratio>},
                          {"unrolled loop", pack_unrolled<Ratio>},
                          {"prefetching loop", pack_prefetching<Ratio>}};
#if defined(__x86_64__)
  loops.push_back({"vector loop", pack_vectors<Ratio>});
  loops.push_back({"gather instructions", pack_gathering<Ratio>});
  loops.push_back({"streaming stores", pack_streaming<Ratio>});
#endif
  return loops;
}

template <Offset Ratio>
std::vector<Loop> unpack_loops() {
  std::vector<Loop> loops{{"plain loop", unpack_plain<Ratio>},
                          {"unrolled loop", unpack_unrolled<Ratio>},
                          {"prefetching loop", unpack_prefetching<Ratio>}};
#if defined(__x86_64__)
  loops.push_back({"vector loop", unpack_vectors<Ratio>});
  loops.push_back({"streaming stores", unpack_streaming<Ratio>});
#endif
  return loops;
}

template <Offset Ratio>
void words_at_stride(Bench& bench, Offset extent) {
  const Offset count = extent / (8 * Ratio);
  const Element element = element_of({{0, 7, 0, 1, {}}}, 8 * Ratio);
  const std::string what = concat("8 B at stride ", 8 * Ratio, " in ", size_name(extent));
  const auto run = [&](const std::string& name, const Plan& plan, const std::vector<Loop>& loops, Offset from,
                       Offset to) {
    if (!bench.wants(name)) return;
    const Buffer source(from);
    const Buffer target(to);
    std::vector<Rival> rivals;
    for (const Loop& loop : loops) {
      rivals.push_back(
          {loop.name, [&source, &target, count, loop] { loop.run(source.words(), target.words(), count); }});
    }
    bench.measure(
        name, 0.95, target,
        [&] {
          plan.run({source.data(), 0}, {target.data(), 0}, {0, count * 8});
        },
        rivals);
  };
  run("gather, " + what, expect(Plan::gather(element)), pack_loops<Ratio>(), extent, count * 8);
  run("scatter, " + what, expect(Plan::scatter(element)), unpack_loops<Ratio>(), count * 8, extent);
}

void words(Bench& bench) {
  for (const Offset extent : {Offset{1} << 18, Offset{1} << 25}) {
    words_at_stride<2>(bench, extent);
    words_at_stride<4>(bench, extent);
    words_at_stride<512>(bench, extent);
  }
}

// ---- rows of a part of an array ----

void rows(Bench& bench) {
  for (const Offset bytes : {Offset{1} << 17, Offset{1} << 24}) {
    for (const Offset row : {64, 256, 1024, 4096}) {
      const Element element = element_of({{0, row - 1, 0, 1, {}}}, 2 * row);
      for (const bool is_gather : {true, false}) {
        const std::string name =
            concat(is_gather ? "gather" : "scatter", ", rows of ", size_name(row), ", ", size_name(bytes));
        if (!bench.wants(name)) continue;
        const Buffer source(is_gather ? 2 * bytes : bytes);
        const Buffer target(is_gather ? bytes : 2 * bytes);
        const Plan plan = expect(is_gather ? Plan::gather(element) : Plan::scatter(element));
        bench.add(
            {name, "memcpy of as many bytes",
             compare(
                 [&] {
                   plan.run({source.data(), 0}, {target.data(), 0}, {0, bytes});
                 },
                 [&] { std::memcpy(target.data(), source.data(), static_cast<std::size_t>(bytes)); }, bench.options()),
             0.9});
      }
    }
  }
}

// ---- transpose ----

void transpose_by_rows(const Word* source, Word* target, Offset n) {
  for (Offset i = 0; i < n; ++i) {
    for (Offset j = 0; j < n; ++j) target[j * n + i] = source[i * n + j];
  }
}

void transpose_by_columns(const Word* source, Word* target, Offset n) {
  for (Offset j = 0; j < n; ++j) {
    for (Offset i = 0; i < n; ++i) target[j * n + i] = source[i * n + j];
  }
}

void transposes(Bench& bench) {
  for (const Offset n : {512, 4096}) {
    const std::string name = concat("transpose, ", n, " x ", n, " of 8 B");
    if (!bench.wants(name)) continue;
    const Offset bytes = n * n * 8;
    const Buffer source(bytes);
    const Buffer target(bytes);
    const Element columns = element_of({{0, bytes - n * 8 + 7, 8, n, {{0, 7, n * 8, n, {}}}}}, bytes);
    const Plan plan = expect(Plan::gather(columns));
    bench.measure(name, 2, target,
                  [&] {
                    plan.run({source.data(), 0}, {target.data(), 0}, {0, bytes});
                  },
                  {{"double loop, by rows", [&] { transpose_by_rows(source.words(), target.words(), n); }},
                   {"double loop, by columns", [&] { transpose_by_columns(source.words(), target.words(), n); }}});
  }
}

// ---- many small pieces ----

struct FlatPiece {
  Offset offset;
  Offset length;
};

void copy_flat(const std::vector<FlatPiece>& pieces, const std::byte* source, std::byte* target) {
  for (const FlatPiece& piece : pieces) {
    std::memcpy(target, source + piece.offset, static_cast<std::size_t>(piece.length));
    target += piece.length;
  }
}

template <std::size_t Length>
void pack_constant(const std::byte* source, std::byte* target, Offset stride, Offset count) {
  for (Offset i = 0; i < count; ++i) {
    std::memcpy(target, source, Length);
    source += stride;
    target += Length;
  }
}

template <std::size_t Length>
void unpack_constant(const std::byte* source, std::byte* target, Offset stride, Offset count) {
  for (Offset i = 0; i < count; ++i) {
    std::memcpy(target, source, Length);
    source += Length;
    target += stride;
  }
}

constexpr Offset kPieces = 175'000;

void irregular_pieces(Bench& bench) {
  const std::string name = "gather, 175000 irregular pieces of 4 B";
  if (!bench.wants(name)) return;
  std::mt19937 random(1);
  FallsSet set;
  std::vector<std::uint32_t> offsets;
  Offset at = 0;
  for (Offset i = 0; i < kPieces; ++i) {
    at += 4 * (1 + static_cast<Offset>(random() % 6));
    set.push_back({at, at + 3, 0, 1, {}});
    offsets.push_back(static_cast<std::uint32_t>(at));
    at += 4;
  }
  const Buffer source(at);
  const Buffer target(kPieces * 4);
  const Plan plan = expect(Plan::gather(element_of(std::move(set), at), kLargeBudget));
  const auto by_offsets = [&] {
    for (std::size_t i = 0; i < offsets.size(); ++i) std::memcpy(target.data() + 4 * i, source.data() + offsets[i], 4);
  };
  bench.measure(name, 0, target,
                [&] {
                  plan.run({source.data(), 0}, {target.data(), 0}, {0, kPieces * 4});
                },
                {{"loop over 32-bit offsets", by_offsets}});
}

template <std::size_t Length>
void regular_pieces(Bench& bench, const std::string& what, Offset stride, Offset count) {
  constexpr auto kLength = static_cast<Offset>(Length);
  const Element element = element_of({{0, kLength - 1, 0, 1, {}}}, stride);
  for (const bool is_gather : {true, false}) {
    const std::string name = concat(is_gather ? "gather, " : "scatter, ", what);
    if (!bench.wants(name)) continue;
    const Buffer source(is_gather ? stride * count : kLength * count);
    const Buffer target(is_gather ? kLength * count : stride * count);
    const Plan plan = expect(is_gather ? Plan::gather(element) : Plan::scatter(element));
    const auto loop = is_gather ? pack_constant<Length> : unpack_constant<Length>;
    bench.measure(name, 0.95, target,
                  [&] {
                    plan.run({source.data(), 0}, {target.data(), 0}, {0, kLength * count});
                  },
                  {{"loop", [&] { loop(source.data(), target.data(), stride, count); }}});
  }
}

// ---- random nested patterns ----

// One level around `inner`: some copies of it, and gaps.
FallsSet wrap(std::mt19937& random, FallsSet inner, Offset length, Offset& extent) {
  const auto between = [&](Offset low, Offset high) { return low + static_cast<Offset>(random()) % (high - low + 1); };
  const Offset count = between(2, 24);
  const Offset stride = length + (random() % 4 == 0 ? 0 : between(1, std::max<Offset>(8, length)));
  extent = (count - 1) * stride + length;
  return {{0, length - 1, stride, count, std::move(inner)}};
}

FallsSet random_nest(std::mt19937& random, int depth, Offset& extent) {
  if (depth == 0) {
    const Offset length = Offset{1} << (random() % 9);
    extent = random() % 2 == 0 ? length : 1 + static_cast<Offset>(random()) % length;
    return {{0, extent - 1, 0, 1, {}}};
  }
  const int members = random() % 3 == 0 ? 2 + static_cast<int>(random() % 2) : 1;
  FallsSet set;
  Offset at = 0;
  for (int i = 0; i < members; ++i) {
    Offset inner_extent = 0;
    FallsSet inner = random_nest(random, depth - 1, inner_extent);
    Offset outer_extent = 0;
    FallsSet outer = wrap(random, std::move(inner), inner_extent, outer_extent);
    outer.front().left += at;
    outer.front().right += at;
    at += outer_extent + static_cast<Offset>(random() % 32);
    set.push_back(std::move(outer.front()));
  }
  extent = at;
  return set;
}

std::vector<FlatPiece> flatten(const Element& element, Offset bytes) {
  std::vector<FlatPiece> pieces;
  for (layout::SegmentCursor cursor{element, 0, bytes}; const auto segment = cursor.next();) {
    pieces.push_back({segment->offset, segment->length});
  }
  return pieces;
}

void random_patterns(Bench& bench, int patterns) {
  const std::string family = "random nested patterns";
  if (!bench.wants(family)) return;
  RatioOptions options = bench.options();
  options.turns = std::min(options.turns, 9);
  options.batch_seconds /= 4;
  std::vector<Line> lines;
  for (unsigned seed = 1; static_cast<int>(lines.size()) < patterns; ++seed) {
    std::mt19937 random(seed);
    Offset extent = 0;
    const FallsSet set = random_nest(random, 1 + static_cast<int>(random() % 3), extent);
    const Offset period = extent + static_cast<Offset>(random() % 64);
    const Element element = element_of(set, period);
    if (period > (1 << 24) || element.size() < 64) continue;
    const Offset bytes = element.size() * std::max<Offset>(1, (1 << 16) / element.size());
    const Buffer source(ceil_div(bytes, element.size()) * period);
    const Buffer target(bytes);
    const Plan plan = expect(Plan::gather(element, kLargeBudget));
    const std::vector<FlatPiece> flat = flatten(element, bytes);
    const auto ours = [&] { plan.run({source.data(), 0}, {target.data(), 0}, {0, bytes}); };
    const auto rival = [&] { copy_flat(flat, source.data(), target.data()); };
    lines.push_back({concat("seed ", seed, ": ", flat.size(), " pieces, mean ",
                            bytes / static_cast<Offset>(flat.size()), " B, ", plan.nest_count(), " nests"),
                     "(offset, length) memcpy loop", compare(ours, rival, options), 1});
  }
  std::sort(lines.begin(), lines.end(), [](const Line& x, const Line& y) { return x.ratio.median < y.ratio.median; });
  std::vector<double> medians;
  for (const Line& line : lines) medians.push_back(line.ratio.median);
  bench.add({concat(family, ", median of ", patterns), "(offset, length) memcpy loop", spread_of(medians), 1});
  for (std::size_t i = 0; i < std::min<std::size_t>(8, lines.size()); ++i) {
    bench.add(lines[i]);
  }
}

}  // namespace
}  // namespace weir::transfer

int main(int argc, char** argv) {
  using namespace weir::transfer;
  RatioOptions options;
  bool json = false;
  bool quick = false;
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--quick") {
      quick = true;
    } else if (argument.starts_with("-")) {
      std::fprintf(stderr, "usage: transfer_bench [--quick] [--json] [text]\n");
      return 2;
    } else {
      filter = argument;
    }
  }
  if (quick) options = {.turns = 9, .batch_seconds = 2e-4};
  Bench bench(options, filter);
  contiguous(bench);
  words(bench);
  rows(bench);
  transposes(bench);
  regular_pieces<4>(bench, "175000 pieces of 4 B at stride 12", 12, kPieces);
  irregular_pieces(bench);
  regular_pieces<16>(bench, "16 B blocks with 16 B gaps", 32, 8192);
  regular_pieces<48>(bench, "48 B blocks with 16 B gaps", 64, 8192);
  random_patterns(bench, quick ? 50 : 200);
  if (json) {
    weir::transfer::internal::print_json(bench.lines());
  } else {
    weir::transfer::internal::print_table(bench.lines());
  }
  return 0;
}
