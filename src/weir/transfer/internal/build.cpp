#include <weir/transfer/internal/program.h>

// Compiling: from bands to nests, scopes and lists.

#include <algorithm>
#include <map>

namespace weir::transfer::internal {

namespace {

using Input = Program::Input;

// What the nests of a scope may touch before the next chunk: about a first-level cache.
constexpr Offset kCacheBytes = Offset{1} << 15;
constexpr Offset kLine = 64;
constexpr Offset kFewPieces = 8;  // so few pieces are cheaper as a list than as a nest

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

// The number of innermost loops that are together so short that calling their kernel takes longer than the kernel, while the loop
// around them is long: better one nest for each of their turns, and the longer loop inside.
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

// The order in which the loops of a nest are run: the loop with the smallest target step innermost, since writes cost more than
// reads.  If another loop walks the source along its grain, the two are tiled.
struct RunOrder {
  std::vector<std::uint8_t> order;
  bool is_tiled = false;
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
  if (!is_crossed || !choose_tile_kernel(input.length)) return result;
  result.is_tiled = true;
  std::rotate(along_source, along_source + 1, result.order.end() - 1);  // next to the innermost
  return result;
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
    program_.is_stride_ = program_.nests_.size() == 1 && program_.singles_.empty() &&
                          program_.nests_[0].loop_count == 1 &&
                          key_step(program_.loops_[0]) == program_.nests_[0].length;
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
    for (Input& input : inputs) {
      if (input.loops.size() <= depth || (inputs.size() > 1 && piece_count(input, depth) <= kFewPieces)) {
        expand(std::move(input), depth, few);
      } else {
        const Step& loop = input.loops[depth];
        by_step[{loop.source, loop.target}].push_back(std::move(input));
      }
    }
    std::vector<Draft> drafts;
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
    draft.children = group(std::move(members), depth + 1);
    return draft;
  }

  Draft make_list(std::vector<Input> pieces, std::uint32_t depth) {
    std::sort(pieces.begin(), pieces.end(), [&](const Input& a, const Input& b) { return key_of(a) < key_of(b); });
    Draft draft;
    draft.scope.is_list = true;
    draft.scope.depth = depth;
    draft.scope.count = static_cast<std::uint32_t>(pieces.size());
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
        scope.first = static_cast<std::uint32_t>(program_.singles_.size());
        for (const Input& piece : draft.inputs) program_.singles_.push_back({piece.source, piece.target, piece.length});
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

  void write_nest(const Input& input) {
    const RunOrder run = order_loops(input);
    Nest nest{input.source,
              input.target,
              input.length,
              static_cast<std::uint32_t>(program_.loops_.size()),
              static_cast<std::uint32_t>(input.loops.size()),
              choose_kernel(input.length),
              run.is_tiled ? choose_tile_kernel(input.length) : nullptr};
    program_.nests_.push_back(nest);
    program_.loops_.insert(program_.loops_.end(), input.loops.begin(), input.loops.end());
    program_.order_.insert(program_.order_.end(), run.order.begin(), run.order.end());
  }

  Program& program_;
};

Program::Program(std::vector<Input> inputs, Key key) : key_(key) {
  if (!inputs.empty()) only_ = {inputs.front().source, inputs.front().target, inputs.front().length};
  ProgramBuilder{*this}.build(std::move(inputs));
}

}  // namespace weir::transfer::internal
