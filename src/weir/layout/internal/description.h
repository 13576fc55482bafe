#pragma once

// What Partition::create checks, in a form that lets the parser point at the argument that is to blame.

#include <optional>
#include <string_view>

#include <weir/layout/partition.h>

namespace weir::layout::internal {

/// No partition has more elements than this.
inline constexpr Offset kMaxElements = Offset{1} << 31;

struct Problem {
  Status status;
  std::string_view argument;           ///< The name of the argument that is wrong; empty: the description as a whole.
  std::optional<std::size_t> element;  ///< The element of an Explicit that is wrong.
};

struct Facts {
  Offset period = 0;  ///< The one that the description has by default; 0 if it has none.
  Offset elements = 0;
};

/// The first thing that is wrong with a description; if nothing is, fills in `facts`.
std::optional<Problem> examine(const Description& description, Facts& facts);

/// The same for disp and period together with what examine() found.
std::optional<Problem> examine(const Description& description, const Facts& facts, const Partition::Options& options);

/// The default period of explicit elements (see Partition::Options), where `given_stride` is the largest stride that
/// was written for an outermost FALLS of one block; nothing if it exceeds 2^62.  \pre check() is ok for every element.
std::optional<Offset> default_period(const Explicit& description, Offset given_stride) noexcept;

}  // namespace weir::layout::internal
