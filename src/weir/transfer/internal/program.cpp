#include <weir/transfer/internal/program.h>

#include <algorithm>
#include <cstring>

namespace weir::transfer::internal {

namespace {

constexpr Offset kSmallBlock = 64;        // tiled even if the caches are to be bypassed
constexpr Offset kFewTurns = 4;           // not worth entering a nest for, if there is a list
constexpr std::uint32_t kMostLoops = 64;  // each turns twice at least, and there are fewer than 2^63 bytes

// Steps in the key are powers of two more often than not, and a division costs as much as moving dozens of words.
Offset divide(Offset offset, Offset step) {
  return (step & (step - 1)) == 0 ? offset >> __builtin_ctzll(static_cast<unsigned long long>(step)) : offset / step;
}

}  // namespace

// Runs a program for one pair of base pointers.
class Program::Runner {
 public:
  Runner(const Program& program, Address source, Address target, bool bypass)
      : program_(program), source_(source), target_(target), bypass_(bypass) {}

  // The program is one nest: false if the range cuts a turn of its outermost loop.  The commonest of all plans, and
  // often so short that finding out what to do takes longer than doing it.
  bool run_nest(Range range) const {
    const Nest& nest = program_.nests_.front();
    const Step& loop = program_.loops_.front();
    const Offset step = key_of(loop);
    const Offset gap = step - program_.scopes_.front().turn_extent;
    const Offset from = range.from - (program_.key_ == Key::kSource ? nest.source : nest.target);
    const Offset to =
        from + (range.to - range.from) + gap;  // a range that ends with its last turn does so before the gap
    if (from < 0 || gap < 0) return false;
    const Offset first = divide(from, step);
    const Offset end = divide(to, step);
    if (first * step != from || to - end * step > gap || end > loop.count) return false;
    turns(nest, 0, end - first, nest.source + first * loop.source, nest.target + first * loop.target);
    if (bypass_) fence();
    return true;
  }

  // All bytes of a scope whose key offset is in `range`; (source, target) is the turn of the outer loops, `key` its key
  // offset.
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

  // The first turn covers [key, key + extent).  Turns may overlap in the key (extent > step) where nests interleave, so
  // that more than one of them can be cut at each end.
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
    const Scope& list = program_.scopes_[scope.first_child];
    const bool is_listed = scope.is_listed || (to - from <= kFewTurns && scope.child_count == 1 && list.is_list);
    if (is_listed && !bypass_) {
      return whole_list(list, source + from * loop.source, target + from * loop.target,
                        {to - from, loop.source, loop.target});
    }
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
    const Step* loops = program_.loops_.data() + nest.first_loop;
    const std::uint8_t* order = program_.order_.data() + nest.first_loop;
    Step steps[kMostLoops];
    std::uint32_t number = 0;
    for (std::uint32_t i = 0; i < nest.loop_count; ++i) {
      if (order[i] < depth) continue;
      steps[number] = loops[order[i]];
      if (order[i] == depth) steps[number].count = count;
      ++number;
    }
    nested(nest, steps, number, at_source(source), at_target(target));
  }

  // All turns of the loops given, in that order.
  void nested(const Nest& nest, const Step* loops, std::uint32_t number, const std::byte* source,
              std::byte* target) const {
    if (number == 1) return innermost(nest, *loops, source, target);
    const bool is_tiled = nest.tile && !(bypass_ && nest.length > kSmallBlock);
    if (number == 2 && is_tiled) return nest.tile(source, target, nest.length, loops[0], loops[1]);
    for (Offset i = 0; i < loops->count; ++i) {
      nested(nest, loops + 1, number - 1, source + i * loops->source, target + i * loops->target);
    }
  }

  void innermost(const Nest& nest, const Step& loop, const std::byte* source, std::byte* target) const {
    if (bypass_) {
      if (const Kernel kernel = choose_bypass_kernel(nest.length, loop))
        return kernel(source, target, nest.length, loop);
    }
    nest.kernel(source, target, nest.length, loop);
  }

  [[nodiscard]] std::span<const Batch> batches(const Scope& scope) const {
    return std::span(program_.batches_).subspan(scope.first, scope.count);
  }

  [[nodiscard]] Offset key_of(const Batch& batch) const {
    return program_.key_ == Key::kSource ? batch.source : batch.target;
  }

  void whole_list(const Scope& scope, Offset source, Offset target, const Step& loop) const {
    for (const Batch& batch : batches(scope)) whole_batch(batch, source, target, loop);
  }

  void whole_batch(const Batch& batch, Offset source, Offset target, const Step& loop) const {
    const std::byte* from = at_source(source + batch.source);
    std::byte* to = at_target(target + batch.target);
    if (!batch.by_index) {
      return program_.copy_list_(from, to, program_.pieces_.data() + batch.first, batch.count, loop);
    }
    for (Offset i = 0; i < loop.count; ++i) {
      batch.by_index(from + i * loop.source, to + i * loop.target, program_.index_.data() + batch.first, batch.count);
    }
  }

  void list(const Scope& scope, Offset source, Offset target, Range range) const {
    const Offset base = program_.key_ == Key::kSource ? source : target;
    const auto all = batches(scope);
    auto batch = std::partition_point(all.begin(), all.end(),
                                      [&](const Batch& b) { return base + key_of(b) + b.extent <= range.from; });
    for (; batch != all.end() && base + key_of(*batch) < range.to; ++batch) {
      const Offset key = base + key_of(*batch);
      if (key >= range.from && key + batch->extent <= range.to) {
        whole_batch(*batch, source, target, {1, 0, 0});
      } else {
        cut_batch(*batch, source, target, {range.from - key, range.to - key});
      }
    }
  }

  // Part of a batch; the range is relative to its key.
  void cut_batch(const Batch& batch, Offset source, Offset target, Range range) const {
    source += batch.source;
    target += batch.target;
    if (batch.by_index) {
      cut_index(batch, source, target, range);
    } else {
      cut_pieces(batch, source, target, range);
    }
  }

  void cut_pieces(const Batch& batch, Offset source, Offset target, Range range) const {
    const auto key = [&](const ListPiece& piece) {
      return Offset{program_.key_ == Key::kSource ? piece.source : piece.target};
    };
    const auto clipped = [&](const ListPiece& piece) {
      const Offset from = std::max<Offset>(0, range.from - key(piece));
      const Offset to = std::min(Offset{piece.length}, range.to - key(piece));
      copy(source + piece.source + from, target + piece.target + from, to - from);
    };
    const ListPiece* piece = program_.pieces_.data() + batch.first;
    const ListPiece* end = piece + batch.count;
    piece = std::partition_point(piece, end, [&](const ListPiece& p) { return key(p) + p.length <= range.from; });
    end = std::partition_point(piece, end, [&](const ListPiece& p) { return key(p) < range.to; });
    if (piece == end) return;
    if (key(*piece) < range.from) clipped(*piece++);
    const bool is_cut_at_end = piece != end && key(end[-1]) + end[-1].length > range.to;
    if (is_cut_at_end) --end;
    program_.copy_list_(at_source(source), at_target(target), piece, static_cast<std::size_t>(end - piece), {1, 0, 0});
    if (is_cut_at_end) clipped(*end);
  }

  // Blocks of one length, adjacent in the key.
  void cut_index(const Batch& batch, Offset source, Offset target, Range range) const {
    const std::int32_t* index = program_.index_.data() + batch.first;
    const bool is_gather = program_.key_ == Key::kTarget;
    const auto clipped = [&](Offset i, Offset from, Offset to) {
      const Offset at = i * batch.length + from;
      const Offset there = index[i] + from;
      copy(source + (is_gather ? there : at), target + (is_gather ? at : there), to - from);
    };
    const Offset from = std::max<Offset>(0, range.from);
    const Offset to = std::min(batch.extent, range.to);
    const Offset first = divide(from, batch.length);
    const Offset last = divide(to, batch.length);
    const Offset head = from - first * batch.length;
    const Offset tail = to - last * batch.length;
    if (first == last) return clipped(first, head, tail);
    const Offset whole = head > 0 ? first + 1 : first;
    if (head > 0) clipped(first, head, batch.length);
    const Offset shift = whole * batch.length;
    batch.by_index(at_source(source + (is_gather ? 0 : shift)), at_target(target + (is_gather ? shift : 0)),
                   index + whole, static_cast<std::size_t>(last - whole));
    if (tail > 0) clipped(last, 0, tail);
  }

  [[nodiscard]] const std::byte* at_source(Offset offset) const {
    return reinterpret_cast<const std::byte*>(source_ + static_cast<Address>(offset));
  }
  [[nodiscard]] std::byte* at_target(Offset offset) const {
    return reinterpret_cast<std::byte*>(target_ + static_cast<Address>(offset));
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
  Address source_;
  Address target_;
  bool bypass_;
};

void Program::run(Address source, Address target, Range range, bool bypass) const {
  const Runner runner{*this, source, target, bypass};
  if (is_nest_ && runner.run_nest(range)) return;
  for (std::uint32_t i = 0; i < root_count_; ++i) runner.scope(scopes_[i], 0, 0, 0, range);
  if (bypass) fence();
}

}  // namespace weir::transfer::internal
