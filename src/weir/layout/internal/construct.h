#pragma once

// How constructors (hpf, tiles) put sequences together so that the result is compact without a pass of simplify().

#include <weir/layout/falls.h>
#include <weir/layout/internal/rewrite.h>
#include <weir/layout/pitfalls.h>

namespace weir::layout::internal {

/// No constructor builds an element of more FALLS than this.
inline constexpr Offset kMaxNodes = 65536;

/// What one process gets of one PITFALLS level: `full_count` blocks of `block` indices from `first` on, every `stride`
/// indices, then one block of `clipped` indices that the end of the dimension cuts off.
struct Share {
  Offset first = 0;
  Offset block = 0;
  Offset stride = 0;  ///< 0 if there is only one block.
  Offset full_count = 0;
  Offset clipped = 0;  ///< 0: no such block
};
Share deal(const Pitfalls::Level& level, Offset coordinate) noexcept;

/// `set` once, then moved on by `stride`, ...: `count` times in all.  One segment that fills the stride grows instead,
/// and a family that continues itself gets a larger count.  \pre count >= 1
FallsSet repeat(FallsSet set, Offset stride, Offset count);

/// Appends a sequence; a segment that continues the last one is joined to it.
void append(FallsSet& out, FallsSet more);

/// A sequence put together part by part, where equal parts in equal distances become a family as they come in.
class SequenceBuilder {
 public:
  void add(FallsSet part);
  FallsSet finish();

 private:
  void flush();

  FallsSet done_;
  FallsSet part_;  // what repeats, moved so that its leftmost byte is 0
  Offset at_ = 0;
  Offset distance_ = 0;
  Offset count_ = 0;
};

}  // namespace weir::layout::internal
