#include <weir/transfer/plan.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <system_error>
#include <thread>
#include <vector>

#include <unistd.h>

#include <weir/layout/band.h>
#include <weir/transfer/internal/program.h>

namespace weir::transfer {

namespace {

using internal::Key;
using internal::Program;
using internal::Step;
using layout::Band;
using layout::Loop;
using layout::Mapping;
using layout::Order;
using layout::Run;

// Which of a mapping's address spaces is read and which is written; ranges are always of a.
enum class Direction { kAToB, kBToA };

Step step_of(const Loop& loop, Direction direction) {
  return direction == Direction::kAToB ? Step{loop.count, loop.a, loop.b} : Step{loop.count, loop.b, loop.a};
}

std::vector<Program::Input> inputs_of(const std::vector<Band>& bands, Direction direction) {
  std::vector<Program::Input> inputs;
  inputs.reserve(bands.size());
  for (const Band& band : bands) {
    const bool forward = direction == Direction::kAToB;
    Program::Input input{
        forward ? band.piece.a : band.piece.b, forward ? band.piece.b : band.piece.a, band.piece.length, {}};
    for (const Loop& loop : band.loops) input.loops.push_back(step_of(loop, direction));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Offset count_pieces(const std::vector<Band>& bands) {
  Offset pieces = 0;
  for (const Band& band : bands) pieces += piece_count(band);
  return pieces;
}

Offset hull(const Mapping& mapping, Offset Run::*start, Offset Loop::*step) {
  Offset from = std::numeric_limits<Offset>::max();
  Offset to = 0;
  for (const Run& run : mapping.runs()) {
    Offset end = run.*start + run.length;
    for (const Loop& loop : mapping.loops(run)) end += (loop.count - 1) * (loop.*step);
    from = std::min(from, run.*start);
    to = std::max(to, end);
  }
  return mapping.is_empty() ? 0 : to - from;
}

std::shared_ptr<const Program> compile(const Mapping& mapping, Direction direction) {
  const std::vector<Band> bands =
      mapping.is_periodic() ? layout::endless_bands_of(mapping, Order::kA) : layout::bands_of(mapping, Order::kA);
  auto program = std::make_shared<Program>(inputs_of(bands, direction),
                                           direction == Direction::kAToB ? Key::kSource : Key::kTarget);
  program->bytes = mapping.bytes();
  const Offset a_hull = hull(mapping, &Run::a, &Loop::a);
  const Offset b_hull = hull(mapping, &Run::b, &Loop::b);
  program->working_set = a_hull + std::min(b_hull, std::numeric_limits<Offset>::max() - a_hull);
  if (mapping.is_periodic() && !program->is_contiguous())
    program->pieces = count_pieces(layout::bands_of(mapping, Order::kA));
  constexpr Offset kLine = 64;
  const Offset ends = std::min(program->pieces, kMaxBytes / kLine / 4) * kLine;  // at most a line more for each piece
  const Offset lines = std::min(program->bytes, kMaxBytes / 4) + ends;
  program->footprint = std::min(lines, a_hull) + std::min(lines, b_hull);
  return program;
}

// The last-level cache that one core can use.  The C library adds up all of them on machines with several.
Offset cache_bytes() {
  constexpr Offset kUnknown = Offset{1} << 24;
  Offset kib = 0;
  if (std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size"); file >> kib && kib > 0) return kib << 10;
  const long known = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return known > 0 ? std::min<Offset>(known, 2 * kUnknown) : kUnknown;
}

// True if the bytes do not fit the caches anyway, so that writing around them pays.
bool overflows_cache(const Program& program, Offset length) {
  static const Offset limit = cache_bytes() / 2;
  const double share = static_cast<double>(length) / static_cast<double>(std::max<Offset>(program.bytes, 1));
  return share * static_cast<double>(program.footprint) >= static_cast<double>(limit);
}

// A thread that runs `work`, which stays with the caller if there is none to be had.
template <typename Work>
std::jthread start(const Work& work) {
  try {
    return std::jthread(work);
  } catch (const std::system_error&) {
    work();
    return {};
  }
}

// Apart from run(), whose entry must stay short: a small plan takes some ten nanoseconds.
[[gnu::noinline]] void run_split(const Program& program, internal::Address source, internal::Address target,
                                 Range range, bool bypass, int parts) {
  const Offset share = ((range.to - range.from) / parts + 63) / 64 * 64 + 64;
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(parts));
  for (Offset at = range.from; at < range.to; at += share) {
    const Range part{at, std::min(range.to, at + share)};
    threads.push_back(start([&program, source, target, part, bypass] { program.run(source, target, part, bypass); }));
  }
}

}  // namespace

Result<Plan> Plan::gather(const layout::Element& element, const layout::Budget& budget) {
  WEIR_TRY(const layout::Element bytes, layout::Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1}));
  WEIR_TRY(const Mapping mapping, layout::intersect(element, bytes, budget));
  return Plan(compile(mapping, Direction::kBToA));
}

Result<Plan> Plan::scatter(const layout::Element& element, const layout::Budget& budget) {
  WEIR_TRY(const layout::Element bytes, layout::Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1}));
  WEIR_TRY(const Mapping mapping, layout::intersect(element, bytes, budget));
  return Plan(compile(mapping, Direction::kAToB));
}

Result<Plan> Plan::copy(const Mapping& a_to_b) { return Plan(compile(a_to_b, Direction::kAToB)); }

Result<Plan> Plan::copy_back(const Mapping& a_to_b) { return Plan(compile(a_to_b, Direction::kBToA)); }

Plan::Plan(std::shared_ptr<const Program> program) : program_(std::move(program)) {
  if (!program_->is_contiguous()) return;
  const internal::Block& block = program_->first();
  const Offset key = program_->key() == Key::kSource ? block.source : block.target;
  straight_ = {key, key + block.length, block.source - key, block.target - key, internal::choose_piece_kernel()};
}

void Plan::run_program(Address source, Address target, Range range, const RunOptions& options) const {
  if (range.from >= range.to) return;
  const Offset length = range.to - range.from;
  const bool bypass = options.bypass_cache.value_or(length >= kLeastBypass && overflows_cache(*program_, length));
  if (options.threads > 1) return run_split(*program_, source, target, range, bypass, options.threads);
  program_->run(source, target, range, bypass);
}

Offset Plan::bytes() const noexcept { return program_->bytes; }
Offset Plan::pieces() const noexcept { return program_->pieces; }
bool Plan::is_contiguous() const noexcept { return program_->is_contiguous(); }
Offset Plan::working_set() const noexcept { return program_->working_set; }
std::size_t Plan::nest_count() const noexcept { return program_->nest_count(); }

}  // namespace weir::transfer
