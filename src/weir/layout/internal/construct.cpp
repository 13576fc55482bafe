#include <weir/layout/internal/construct.h>

#include <algorithm>
#include <utility>

namespace weir::layout::internal {
namespace {

Offset leftmost(const FallsSet& set) noexcept {
  Offset left = set.front().left;
  for (const Falls& falls : set) left = std::min(left, falls.left);
  return left;
}

Offset rightmost(const FallsSet& set) noexcept {
  Offset right = 0;
  for (const Falls& falls : set) right = std::max(right, falls.right + falls.stride * (falls.count - 1));
  return right;
}

bool is_segment(const Falls& falls) noexcept { return falls.count == 1 && falls.is_leaf(); }

/// Repeats a single FALLS without a new level of nesting; false if that cannot be done.
bool repeat_in_place(Falls& falls, Offset stride, Offset count) noexcept {
  if (is_segment(falls) && falls.block_length() == stride) {
    falls.right += stride * (count - 1);
    return true;
  }
  if (falls.count == 1) {
    falls.stride = stride;
    falls.count = count;
    return true;
  }
  if (falls.stride * falls.count == stride) {
    falls.count *= count;
    return true;
  }
  return false;
}

}  // namespace

Share deal(const Pitfalls::Level& level, Offset coordinate) noexcept {
  // One process holds everything, and no block is longer than the dimension.
  const Offset block = level.processes == 1 ? level.extent : std::min(level.block, level.extent);
  if (coordinate > (level.extent - 1) / block) return {};
  Share share{.first = coordinate * block, .block = block};
  const Offset rest = level.extent - share.first;
  Offset stride;
  if (__builtin_mul_overflow(block, level.processes, &stride) || stride >= rest) {
    (rest >= block ? share.full_count : share.clipped) = rest >= block ? 1 : rest;
    return share;
  }
  share.stride = stride;
  share.full_count = rest / stride;
  const Offset tail = rest % stride;
  if (tail >= block) {
    ++share.full_count;
  } else {
    share.clipped = tail;
  }
  return share;
}

FallsSet repeat(FallsSet set, Offset stride, Offset count) {
  if (count == 1 || set.empty()) return set;
  if (set.size() == 1 && repeat_in_place(set.front(), stride, count)) return set;
  Falls family{.left = leftmost(set), .right = rightmost(set), .stride = stride, .count = count, .inner = {}};
  shift(set, -family.left);
  family.inner = std::move(set);
  FallsSet out;
  out.push_back(std::move(family));
  return out;
}

void append(FallsSet& out, FallsSet more) {
  if (out.empty()) {
    out = std::move(more);
    return;
  }
  for (Falls& falls : more) {
    Falls& last = out.back();
    if (is_segment(last) && is_segment(falls) && last.right + 1 == falls.left) {
      last.right = falls.right;
    } else {
      out.push_back(std::move(falls));
    }
  }
}

void SequenceBuilder::add(FallsSet part) {
  if (part.empty()) return;
  const Offset at = leftmost(part);
  shift(part, -at);
  const bool is_next = count_ == 1 ? at > at_ : at == at_ + distance_ * count_;
  if (count_ > 0 && is_next && part == part_) {
    if (count_ == 1) distance_ = at - at_;
    ++count_;
    return;
  }
  flush();
  part_ = std::move(part);
  at_ = at;
  count_ = 1;
}

FallsSet SequenceBuilder::finish() {
  flush();
  return std::move(done_);
}

void SequenceBuilder::flush() {
  if (count_ == 0) return;
  FallsSet family = repeat(std::move(part_), distance_, count_);
  shift(family, at_);
  append(done_, std::move(family));
  count_ = 0;
}

}  // namespace weir::layout::internal
