#include <weir/transfer/internal/program.h>

#include <algorithm>
#include <cstring>

namespace weir::transfer::internal {

namespace {

// Steps in the key are powers of two more often than not, and a division costs as much as moving dozens of words.
Offset divide(Offset offset, Offset step) {
  return (step & (step - 1)) == 0 ? offset >> __builtin_ctzll(static_cast<unsigned long long>(step)) : offset / step;
}

}  // namespace

// Runs a program for one pair of base pointers.
class Program::Runner {
 public:
  Runner(const Program& program, const Source& source, const Target& target, bool bypass)
      : program_(program), source_(source), target_(target), bypass_(bypass) {}

  // The program is one loop around one block, adjacent in the key: false if the range cuts a block.  The commonest of all plans, and
  // often so short that finding out what to do takes longer than doing it.
  bool run_stride(Range range) const {
    const Nest& nest = program_.nests_.front();
    const Step& loop = program_.loops_.front();
    const Offset step = nest.length;
    const Offset key = program_.key_ == Key::kSource ? nest.source : nest.target;
    const Offset first = divide(range.from - key, step);
    const Offset end = divide(range.to - key, step);
    if (range.from < key || key + first * step != range.from || key + end * step != range.to || end > loop.count)
      return false;
    innermost(nest, {end - first, loop.source, loop.target}, at_source(nest.source + first * loop.source),
              at_target(nest.target + first * loop.target));
    if (bypass_) fence();
    return true;
  }

  // All bytes of a scope whose key offset is in `range`; (source, target) is the turn of the outer loops, `key` its key offset.
  void scope(const Scope& scope, Offset source, Offset target, Offset key, Range range) const {
    if (key + scope.key >= range.to || key + scope.key + scope.extent <= range.from) return;
    if (scope.is_list) return list(scope, source, target, range);
    const bool is_whole = key + scope.key >= range.from && key + scope.key + scope.extent <= range.to;
    if (scope.count == 1) {
      const Nest& nest = program_.nests_[scope.first];
      if (is_whole)
        return turns(nest, scope.depth, count_at(nest, scope.depth), nest.source + source, nest.target + target);
      return part(nest, scope.depth, nest.source + source, nest.target + target, range);
    }
    const Step& loop = program_.loops_[program_.nests_[scope.first].first_loop + scope.depth];
    if (is_whole) return shared(scope, loop, 0, loop.count, source, target);
    const Turns cut = cut_turns(loop, key + scope.key, scope.turn_extent, range);
    for (Offset i = cut.first; i < cut.whole_first; ++i) turn(scope, loop, i, source, target, key, range);
    if (cut.whole_first < cut.whole_end) shared(scope, loop, cut.whole_first, cut.whole_end, source, target);
    for (Offset i = cut.whole_end; i < cut.end; ++i) turn(scope, loop, i, source, target, key, range);
  }

 private:
  [[nodiscard]] Offset key_of(const Step& step) const {
    return program_.key_ == Key::kSource ? step.source : step.target;
  }

  [[nodiscard]] std::span<const Step> loops(const Nest& nest) const {
    return std::span(program_.loops_).subspan(nest.first_loop, nest.loop_count);
  }

  [[nodiscard]] Offset count_at(const Nest& nest, std::uint32_t depth) const {
    return depth < nest.loop_count ? program_.loops_[nest.first_loop + depth].count : 1;
  }

  // Turns [first, end) of a loop touch a range, those of [whole_first, whole_end) lie inside it.
  struct Turns {
    Offset first;
    Offset whole_first;
    Offset whole_end;
    Offset end;
  };

  // The first turn covers [key, key + extent).  Turns may overlap in the key (extent > step) where nests interleave, so that more
  // than one of them can be cut at each end.
  [[nodiscard]] Turns cut_turns(const Step& loop, Offset key, Offset extent, Range range) const {
    const Offset step = key_of(loop);
    const auto reached = [step](Offset offset) {
      return offset < 0 ? 0 : divide(offset, step) + 1;
    };  // turns i: i * step <= offset
    Turns cut{};
    cut.end = std::min(loop.count, reached(range.to - key - 1));
    cut.first = std::min(cut.end, reached(range.from - key - extent));
    cut.whole_first = cut.first;
    cut.whole_end = cut.end;
    // Divisions cost more than a short plan: only where a turn is cut.
    if (key + cut.first * step < range.from) {
      cut.whole_first = std::clamp(reached(range.from - key - 1), cut.first, cut.end);
    }
    if (key + (cut.end - 1) * step + extent > range.to) {
      cut.whole_end = std::clamp(reached(range.to - key - extent), cut.whole_first, cut.end);
    }
    return cut;
  }

  // One turn of a shared loop: its children, clipped.
  void turn(const Scope& scope, const Step& loop, Offset index, Offset source, Offset target, Offset key,
            Range range) const {
    for (std::uint32_t i = 0; i < scope.child_count; ++i) {
      this->scope(program_.scopes_[scope.first_child + i], source + index * loop.source, target + index * loop.target,
                  key + index * key_of(loop), range);
    }
  }

  // Turns [from, to) of a shared loop, whole.
  void shared(const Scope& scope, const Step& loop, Offset from, Offset to, Offset source, Offset target) const {
    if (scope.chunk == 1) {  // one turn is more than the cache holds: look for sharing inside it
      const Range all{-kMaxBytes, kMaxBytes};
      for (Offset i = from; i < to; ++i) turn(scope, loop, i, source, target, 0, all);
      return;
    }
    for (; from < to; from += scope.chunk) {
      const Offset count = std::min(scope.chunk, to - from);
      for (std::uint32_t i = 0; i < scope.count; ++i) {
        const Nest& nest = program_.nests_[scope.first + i];
        turns(nest, scope.depth, count, nest.source + source + from * loop.source,
              nest.target + target + from * loop.target);
      }
    }
  }

  // The bytes of a nest in `range`; loops before `depth` stand still at (source, target).
  void part(const Nest& nest, std::uint32_t depth, Offset source, Offset target, Range range) const {
    const Offset key = program_.key_ == Key::kSource ? source : target;
    if (depth == nest.loop_count) {
      const Offset from = std::max(key, range.from) - key;
      const Offset to = std::min(key + nest.length, range.to) - key;
      if (from < to) copy(source + from, target + from, to - from);
      return;
    }
    const Step& loop = program_.loops_[nest.first_loop + depth];
    Offset extent = nest.length;
    for (std::uint32_t i = depth + 1; i < nest.loop_count; ++i) {
      const Step& inner = program_.loops_[nest.first_loop + i];
      extent += (inner.count - 1) * key_of(inner);
    }
    const Turns cut = cut_turns(loop, key, extent, range);
    const auto one = [&](Offset i) {
      part(nest, depth + 1, source + i * loop.source, target + i * loop.target, range);
    };
    for (Offset i = cut.first; i < cut.whole_first; ++i) one(i);
    if (cut.whole_first < cut.whole_end) {
      turns(nest, depth, cut.whole_end - cut.whole_first, source + cut.whole_first * loop.source,
            target + cut.whole_first * loop.target);
    }
    for (Offset i = cut.whole_end; i < cut.end; ++i) one(i);
  }

  // `count` turns of the loop at `depth`, all of the loops inside; those outside stand still.
  void turns(const Nest& nest, std::uint32_t depth, Offset count, Offset source, Offset target) const {
    if (depth >= nest.loop_count) return copy(source, target, nest.length);
    const Frame frame{nest, depth, count};
    nested(frame, 0, at_source(source), at_target(target));
  }

  struct Frame {
    const Nest& nest;
    std::uint32_t depth;  // loops before this one stand still
    Offset count;         // turns of the one at `depth`
  };

  // The loops of a nest from position `at` of its run order on.
  void nested(const Frame& frame, std::uint32_t at, const std::byte* source, std::byte* target) const {
    const Nest& nest = frame.nest;
    const std::uint8_t* order = program_.order_.data() + nest.first_loop;
    while (order[at] < frame.depth) {
      if (++at == nest.loop_count) return nest.kernel(source, target, nest.length, {1, 0, 0});
    }
    const Step loop = step_of(frame, order[at]);
    std::uint32_t next = at + 1;
    while (next < nest.loop_count && order[next] < frame.depth) ++next;
    if (next == nest.loop_count) return innermost(nest, loop, source, target);
    if (nest.tile && is_last(frame, next)) {
      return nest.tile(source, target, nest.length, loop, step_of(frame, order[next]));
    }
    if (is_last(frame, next)) {
      const Step inner = step_of(frame, order[next]);
      for (Offset i = 0; i < loop.count; ++i) {
        innermost(nest, inner, source + i * loop.source, target + i * loop.target);
      }
      return;
    }
    for (Offset i = 0; i < loop.count; ++i) {
      nested(frame, next, source + i * loop.source, target + i * loop.target);
    }
  }

  [[nodiscard]] Step step_of(const Frame& frame, std::uint8_t index) const {
    Step step = program_.loops_[frame.nest.first_loop + index];
    if (index == frame.depth) step.count = frame.count;
    return step;
  }

  [[nodiscard]] bool is_last(const Frame& frame, std::uint32_t at) const {
    const std::uint8_t* order = program_.order_.data() + frame.nest.first_loop;
    for (std::uint32_t i = at + 1; i < frame.nest.loop_count; ++i) {
      if (order[i] >= frame.depth) return false;
    }
    return true;
  }

  void innermost(const Nest& nest, const Step& loop, const std::byte* source, std::byte* target) const {
    if (bypass_) {
      if (const Kernel kernel = choose_bypass_kernel(nest.length, loop))
        return kernel(source, target, nest.length, loop);
    }
    nest.kernel(source, target, nest.length, loop);
  }

  void list(const Scope& scope, Offset source, Offset target, Range range) const {
    const Offset base = program_.key_ == Key::kSource ? source : target;
    const auto key = [&](const Single& single) {
      return base + (program_.key_ == Key::kSource ? single.source : single.target);
    };
    const Single* single = program_.singles_.data() + scope.first;
    const Single* end = single + scope.count;
    single = std::partition_point(single, end, [&](const Single& s) { return key(s) + s.length <= range.from; });
    end = std::partition_point(single, end, [&](const Single& s) { return key(s) < range.to; });
    if (single == end) return;
    const auto clipped = [&](const Single& s) {
      const Offset from = std::max<Offset>(0, range.from - key(s));
      const Offset to = std::min(s.length, range.to - key(s));
      copy(s.source + source + from, s.target + target + from, to - from);
    };
    if (key(*single) < range.from) clipped(*single++);
    const bool cut_at_end = single != end && key(end[-1]) + end[-1].length > range.to;
    if (cut_at_end) --end;
    whole_list(single, end, source, target);
    if (cut_at_end) clipped(*end);
  }

  void whole_list(const Single* single, const Single* end, Offset source, Offset target) const {
    const Lists lists{static_cast<const std::byte*>(source_.data), source - source_.origin,
                      static_cast<std::byte*>(target_.data), target - target_.origin};
    while (single != end) {
      const Offset length = single->length;
      switch (length) {  // pieces of one length stand together more often than not
        case 4: single = lists.move_while<4>(single, end); break;
        case 8: single = lists.move_while<8>(single, end); break;
        case 16: single = lists.move_while<16>(single, end); break;
        default: lists.move(*single, static_cast<std::size_t>(length)); ++single;
      }
    }
  }

  // Memory, and what is to be added to a single's offsets to find it there.
  struct Lists {
    const std::byte* from;
    Offset from_shift;
    std::byte* to;
    Offset to_shift;

    void move(const Single& single, std::size_t length) const {
      std::memcpy(to + (single.target + to_shift), from + (single.source + from_shift), length);
    }

    template <std::size_t N>
    const Single* move_while(const Single* single, const Single* end) const {
      for (; single != end && single->length == static_cast<Offset>(N); ++single) move(*single, N);
      return single;
    }
  };

  // Offsets are taken relative to the origin first: the byte at offset 0 need not be anywhere near the memory.
  [[nodiscard]] const std::byte* at_source(Offset offset) const {
    return static_cast<const std::byte*>(source_.data) + (offset - source_.origin);
  }
  [[nodiscard]] std::byte* at_target(Offset offset) const {
    return static_cast<std::byte*>(target_.data) + (offset - target_.origin);
  }

  void copy(Offset source, Offset target, Offset length) const {
    if (bypass_) {
      const Step once{1, length, length};
      if (const Kernel kernel = choose_bypass_kernel(length, once)) {
        return kernel(at_source(source), at_target(target), length, once);
      }
    }
    std::memcpy(at_target(target), at_source(source), static_cast<std::size_t>(length));
  }

  const Program& program_;
  Source source_;
  Target target_;
  bool bypass_;
};

void Program::run(const Source& source, const Target& target, Range range, bool bypass) const {
  const Runner runner{*this, source, target, bypass};
  if (is_stride_ && runner.run_stride(range)) return;
  for (std::uint32_t i = 0; i < root_count_; ++i) runner.scope(scopes_[i], 0, 0, 0, range);
  if (bypass) fence();
}

}  // namespace weir::transfer::internal
