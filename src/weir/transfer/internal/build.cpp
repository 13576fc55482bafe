#include <weir/transfer/internal/program.h>

// Compiling: from bands to nests, scopes and lists.

#include <algorithm>
#include <limits>
#include <map>

#include <weir/transfer/internal/normalize.h>

namespace weir::transfer::internal {

namespace {

using Input = Program::Input;

// What the nests of a scope may touch before the next chunk: about a first-level cache.
constexpr Offset kCacheBytes = Offset{1} << 15;
constexpr Offset kLine = 64;
constexpr Offset kFewPieces = 8;                   // so few pieces are cheaper as a list than as a nest
constexpr Offset kLongestPiece = Offset{1} << 30;  // that a list can hold
constexpr Offset kListPieces = 256;                // a list that takes the place of nests is no longer

// Capped: from a million on the exact number does not matter here.
Offset piece_count(const Input& input, std::size_t first_loop) {
  constexpr Offset kMany = Offset{1} << 20;
  Offset pieces = 1;
  for (std::size_t i = first_loop; i < input.loops.size(); ++i)
    pieces = std::min(kMany, pieces * std::min(kMany, input.loops[i].count));
  return pieces;
}

Offset hull(const Input& input, std::size_t first_loop, Offset Step::*side) {
  Offset length = input.length;
  for (std::size_t i = first_loop; i < input.loops.size(); ++i)
    length += (input.loops[i].count - 1) * (input.loops[i].*side);
  return length;
}

// Memory that one turn of the loops before `first_loop` drags through the cache.
Offset footprint(const Input& input, std::size_t first_loop) {
  const Offset lines = piece_count(input, first_loop) * std::min(std::max(input.length, kLine), kMaxBytes >> 24);
  return std::min(lines, hull(input, first_loop, &Step::source)) +
         std::min(lines, hull(input, first_loop, &Step::target));
}

// The number of innermost loops that are together so short that calling their kernel takes longer than the kernel,
// while the loop around them is long: better one nest for each of their turns, and the longer loop inside.
std::size_t short_loops(const Input& input) {
  constexpr Offset kShort = 8;
  std::size_t found = 0;
  Offset turns = 1;
  for (std::size_t i = input.loops.size(); i-- > 1;) {
    turns *= std::min(input.loops[i].count, 2 * kShort);
    if (turns > kShort) break;
    const Offset touched = 2 * turns * std::max(input.length, kLine);
    if (input.loops[i - 1].count >= 2 * turns && kCacheBytes / touched >= 2 * turns) found = input.loops.size() - i;
  }
  return found;
}

void unroll(Input input, std::size_t loops, std::vector<Input>& out) {
  if (loops == 0) return out.push_back(std::move(input));
  const Step loop = input.loops.back();
  input.loops.pop_back();
  for (Offset i = 0; i < loop.count; ++i) {
    Input turn = input;
    turn.source += i * loop.source;
    turn.target += i * loop.target;
    unroll(std::move(turn), loops - 1, out);
  }
}

std::vector<Input> unroll_all(std::vector<Input> inputs) {
  constexpr std::size_t kFewInputs = 64;  // a program of many nests is long enough as it is
  if (inputs.size() > kFewInputs) return inputs;
  std::vector<Input> out;
  for (Input& input : inputs) {
    const std::size_t loops = short_loops(input);
    unroll(std::move(input), loops, out);
  }
  return out;
}

// The order in which the loops of a nest are run: the loop with the smallest target step innermost, since writes cost
// more than reads.  If another loop walks the source along its grain, the two are tiled.
struct RunOrder {
  std::vector<std::uint8_t> order;
  TileKernel tile = nullptr;
};

RunOrder order_loops(const Input& input) {
  const auto& loops = input.loops;
  RunOrder result;
  for (std::size_t i = 0; i < loops.size(); ++i) result.order.push_back(static_cast<std::uint8_t>(i));
  if (loops.size() < 2) return result;
  std::stable_sort(result.order.begin(), result.order.end(),
                   [&](std::uint8_t a, std::uint8_t b) { return loops[a].target > loops[b].target; });
  const auto along_source =
      std::min_element(result.order.begin(), result.order.end(),
                       [&](std::uint8_t a, std::uint8_t b) { return loops[a].source < loops[b].source; });
  const Step& inner = loops[result.order.back()];
  const Step& outer = loops[*along_source];
  const bool is_crossed = *along_source != result.order.back() && inner.source >= 2 * kLine &&
                          outer.target >= 2 * kLine && outer.source <= kLine && inner.target <= kLine;
  if (!is_crossed || !choose_tile_kernel(input.length)) {
    result.tile = choose_row_kernel(input.length);
    return result;
  }
  result.tile = choose_tile_kernel(input.length);
  std::rotate(along_source, along_source + 1, result.order.end() - 1);  // next to the innermost
  return result;
}

// Nanoseconds, roughly: entering a kernel, and reading a piece from a list instead of counting it.
constexpr double kEntry = 8;
double list_cost(Offset length) { return length <= kLine ? 1 : 0.3; }

// True if one turn of the nests' loop at `depth` is better run as a list of pieces: their kernels are entered for few
// blocks each, as `chunk` turns are run at a time.
bool is_better_listed(const std::vector<Input>& members, std::uint32_t depth, Offset chunk) {
  double entries = 0;
  double listed = 0;
  Offset pieces = 0;
  for (const Input& input : members) {
    const Offset count = piece_count(input, depth + 1);
    pieces += count;
    if (pieces > kListPieces || input.length > kLongestPiece) return false;
    const bool has_more = input.loops.size() > depth + 1;
    entries += has_more ? static_cast<double>(count) / static_cast<double>(input.loops.back().count)
                        : 1 / static_cast<double>(chunk);
    listed += static_cast<double>(count) * list_cost(input.length);
  }
  return entries * kEntry > listed;
}

}  // namespace

class ProgramBuilder {
 public:
  explicit ProgramBuilder(Program& program) : program_(program) {}

  void build(std::vector<Input> inputs) {
    const std::vector<Draft> roots = group(unroll_all(std::move(inputs)), 0);
    program_.root_count_ = static_cast<std::uint32_t>(roots.size());
    program_.scopes_.resize(roots.size());
    write(roots, 0);
    program_.copy_list_ = choose_list_kernel();
    program_.is_nest_ =
        program_.nests_.size() == 1 && program_.batches_.empty() && program_.nests_.front().loop_count > 0;
  }

 private:
  struct Draft {
    Scope scope;
    std::vector<Draft> children;
    std::vector<Input> inputs;  // of a leaf or list
  };

  [[nodiscard]] Offset key_of(const Input& input) const {
    return program_.key_ == Key::kSource ? input.source : input.target;
  }
  [[nodiscard]] Offset key_step(const Step& step) const {
    return program_.key_ == Key::kSource ? step.source : step.target;
  }
  [[nodiscard]] Offset key_hull(const Input& input, std::size_t first_loop) const {
    return hull(input, first_loop, program_.key_ == Key::kSource ? &Step::source : &Step::target);
  }

  // Sorts what is inside `depth` loops into shared scopes, single nests and a list.
  std::vector<Draft> group(std::vector<Input> inputs, std::uint32_t depth) {
    std::vector<Input> few;
    std::map<std::pair<Offset, Offset>, std::vector<Input>> by_step;
    std::vector<Draft> drafts;
    for (Input& input : inputs) {
      const bool has_loops = input.loops.size() > depth;
      const bool is_few = !has_loops || (inputs.size() > 1 && piece_count(input, depth) <= kFewPieces);
      if (is_few && input.length <= kLongestPiece) {
        expand(std::move(input), depth, few);
      } else if (!has_loops) {
        drafts.push_back(make_leaf(std::move(input), depth));
      } else {
        const Step& loop = input.loops[depth];
        by_step[{loop.source, loop.target}].push_back(std::move(input));
      }
    }
    for (auto& [step, members] : by_step) share(std::move(members), depth, drafts);
    if (!few.empty()) drafts.push_back(make_list(std::move(few), depth));
    std::sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) { return a.scope.key < b.scope.key; });
    return drafts;
  }

  // Nests with the same step at `depth`: shared as far as they turn equally often, the rest apart.
  void share(std::vector<Input> members, std::uint32_t depth, std::vector<Draft>& drafts) {
    while (!members.empty()) {
      Offset turns = kMaxBytes;
      for (const Input& input : members) turns = std::min(turns, input.loops[depth].count);
      std::vector<Input> rest;
      if (members.size() > 1) {
        for (Input& input : members) {
          if (input.loops[depth].count == turns) continue;
          Input more = input;
          more.source += turns * input.loops[depth].source;
          more.target += turns * input.loops[depth].target;
          more.loops[depth].count -= turns;
          rest.push_back(std::move(more));
          input.loops[depth].count = turns;
        }
      }
      drafts.push_back(members.size() == 1 ? make_leaf(std::move(members.front()), depth)
                                           : make_shared(std::move(members), depth));
      members = std::move(rest);
    }
  }

  Draft make_leaf(Input input, std::uint32_t depth) {
    Draft draft;
    draft.scope.count = 1;
    draft.scope.depth = depth;
    draft.scope.key = key_of(input);
    draft.scope.extent = key_hull(input, depth);
    draft.scope.turn_extent = key_hull(input, depth + 1);
    draft.inputs.push_back(std::move(input));
    return draft;
  }

  Draft make_shared(std::vector<Input> members, std::uint32_t depth) {
    Draft draft;
    Scope& scope = draft.scope;
    scope.count = static_cast<std::uint32_t>(members.size());
    scope.depth = depth;
    scope.key = kMaxBytes;
    Offset turn_end = 0;
    Offset touched = 0;
    for (const Input& input : members) {
      scope.key = std::min(scope.key, key_of(input));
      turn_end = std::max(turn_end, key_of(input) + key_hull(input, depth + 1));
      touched += std::min(footprint(input, depth + 1), kMaxBytes / 4096);
    }
    const Step loop = members.front().loops[depth];
    scope.turn_extent = turn_end - scope.key;
    scope.extent = scope.turn_extent + (loop.count - 1) * (program_.key_ == Key::kSource ? loop.source : loop.target);
    scope.chunk = std::max<Offset>(1, kCacheBytes / std::max<Offset>(touched, 1));
    draft.inputs = members;
    scope.is_listed = is_better_listed(members, depth, scope.chunk);
    if (scope.is_listed) {
      std::vector<Input> pieces;
      for (Input& input : members) expand(std::move(input), depth + 1, pieces);
      draft.children.push_back(make_list(std::move(pieces), depth + 1));
    } else {
      draft.children = group(std::move(members), depth + 1);
    }
    return draft;
  }

  Draft make_list(std::vector<Input> pieces, std::uint32_t depth) {
    std::sort(pieces.begin(), pieces.end(), [&](const Input& a, const Input& b) { return key_of(a) < key_of(b); });
    Draft draft;
    draft.scope.is_list = true;
    draft.scope.depth = depth;
    draft.scope.key = key_of(pieces.front());
    draft.scope.extent = key_of(pieces.back()) + pieces.back().length - draft.scope.key;
    draft.inputs = std::move(pieces);
    return draft;
  }

  // The pieces of a small nest, one by one.
  static void expand(Input input, std::size_t depth, std::vector<Input>& out) {
    const std::size_t loops = input.loops.size() - std::min(input.loops.size(), depth);
    unroll(std::move(input), loops, out);
  }

  void write(const std::vector<Draft>& drafts, std::size_t at) {
    for (const Draft& draft : drafts) {
      Scope scope = draft.scope;
      if (scope.is_list) {
        scope.first = static_cast<std::uint32_t>(program_.batches_.size());
        write_list(draft.inputs);
        scope.count = static_cast<std::uint32_t>(program_.batches_.size()) - scope.first;
      } else {
        scope.first = static_cast<std::uint32_t>(program_.nests_.size());
        for (const Input& input : draft.inputs) write_nest(input);
      }
      scope.first_child = static_cast<std::uint32_t>(program_.scopes_.size());
      scope.child_count = static_cast<std::uint32_t>(draft.children.size());
      program_.scopes_[at++] = scope;
      program_.scopes_.resize(program_.scopes_.size() + draft.children.size());
      write(draft.children, scope.first_child);
    }
  }

  // Pieces in key order.
  void write_list(const std::vector<Input>& pieces) {
    constexpr std::size_t kLeastIndex = 32;
    std::size_t written = 0;
    for (std::size_t at = 0; at < pieces.size();) {
      const std::size_t end = end_of_index(pieces, at);
      if (end - at >= kLeastIndex) {
        write_mixed(pieces, written, at);
        write_index(pieces, at, end);
        written = end;
      }
      at = end;
    }
    write_mixed(pieces, written, pieces.size());
  }

  // The end of the pieces from `at` on that one index can hold.
  [[nodiscard]] std::size_t end_of_index(const std::vector<Input>& pieces, std::size_t at) const {
    const Input& first = pieces[at];
    std::size_t end = at + 1;
    if (!choose_index_kernels(first.length).gather) return end;
    while (end < pieces.size() && pieces[end].length == first.length &&
           key_of(pieces[end]) == key_of(pieces[end - 1]) + first.length && is_near(pieces[end], first)) {
      ++end;
    }
    return end;
  }

  static bool is_near(const Input& piece, const Input& first) {
    constexpr Offset kFar = std::numeric_limits<std::int32_t>::max();
    const auto near = [](Offset x, Offset y) { return x - y <= kFar && y - x <= kFar; };
    return near(piece.source, first.source) && near(piece.target, first.target);
  }

  void write_index(const std::vector<Input>& pieces, std::size_t at, std::size_t end) {
    const Input& first = pieces[at];
    const bool is_gather = program_.key_ == Key::kTarget;
    const IndexKernels kernels = choose_index_kernels(first.length);
    program_.batches_.push_back({first.source, first.target, first.length, static_cast<Offset>(end - at) * first.length,
                                 is_gather ? kernels.gather : kernels.scatter,
                                 static_cast<std::uint32_t>(program_.index_.size()),
                                 static_cast<std::uint32_t>(end - at)});
    for (std::size_t i = at; i < end; ++i) {
      const Offset offset = is_gather ? pieces[i].source - first.source : pieces[i].target - first.target;
      program_.index_.push_back(static_cast<std::int32_t>(offset));
    }
  }

  void write_mixed(const std::vector<Input>& pieces, std::size_t at, std::size_t to) {
    while (at < to) {
      const Input& first = pieces[at];
      Batch batch{first.source, first.target, 0, 0, nullptr, static_cast<std::uint32_t>(program_.pieces_.size()), 0};
      for (; at < to && is_near(pieces[at], first); ++at) {
        const Input& piece = pieces[at];
        program_.pieces_.push_back({static_cast<std::int32_t>(piece.source - first.source),
                                    static_cast<std::int32_t>(piece.target - first.target),
                                    static_cast<std::uint32_t>(piece.length)});
        batch.extent = key_of(piece) + piece.length - key_of(first);
        ++batch.count;
      }
      program_.batches_.push_back(batch);
    }
  }

  void write_nest(const Input& input) {
    const RunOrder run = order_loops(input);
    Nest nest{input.source,
              input.target,
              input.length,
              static_cast<std::uint32_t>(program_.loops_.size()),
              static_cast<std::uint32_t>(input.loops.size()),
              choose_kernel(input.length),
              run.tile};
    program_.nests_.push_back(nest);
    program_.loops_.insert(program_.loops_.end(), input.loops.begin(), input.loops.end());
    program_.order_.insert(program_.order_.end(), run.order.begin(), run.order.end());
  }

  Program& program_;
};

Program::Program(std::vector<Input> inputs, Key key) : key_(key) {
  inputs = normalize(std::move(inputs), key);
  is_contiguous_ = inputs.empty() || (inputs.size() == 1 && inputs.front().loops.empty());
  if (!inputs.empty()) first_ = {inputs.front().source, inputs.front().target, inputs.front().length};
  for (const Input& input : inputs) {
    Offset number = 1;
    for (const Step& loop : input.loops) number *= loop.count;
    pieces += number;
  }
  ProgramBuilder{*this}.build(std::move(inputs));
}

}  // namespace weir::transfer::internal
