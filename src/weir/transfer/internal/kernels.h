#pragma once

// The innermost loops: n blocks of `length` bytes, strided on both sides.
//
// Every block length has its kernel, chosen when the plan is compiled: 1, 2, 4, 8, 16, 32 and 64 bytes as single moves, other
// lengths up to 128 as two overlapping moves, up to 4096 as a loop over lines, longer ones by the C library.  A second family
// takes two loops at once, for plans in which one side is visited across the grain (transposes): squares of one cache line by one
// cache line, so that both sides use whole lines.

#include <cstddef>
#include <cstdint>

#include <weir/base/checked.h>

namespace weir::transfer::internal {

struct Step {
  Offset count;
  Offset source;
  Offset target;
};

/// Copies `step.count` blocks of `length` bytes.
using Kernel = void (*)(const std::byte* source, std::byte* target, Offset length, const Step& step);
/// The same for each of `outer.count` turns, tiled over both loops.
using TileKernel = void (*)(const std::byte* source, std::byte* target, Offset length, const Step& outer,
                            const Step& inner);

Kernel choose_kernel(Offset length) noexcept;
TileKernel choose_tile_kernel(Offset length) noexcept;

/// A kernel that writes around the caches, where there is one: words that become adjacent in the target, blocks of whole cache lines,
/// long blocks.  Null otherwise.
Kernel choose_bypass_kernel(Offset length, const Step& step) noexcept;

/// Makes writes that went around the caches visible before later ones.
void fence() noexcept;

}  // namespace weir::transfer::internal
