#pragma once

// The innermost loops: n blocks of `length` bytes, strided on both sides.
//
// Every block length has its kernel, chosen when the plan is compiled: 1, 2, 4, 8, 16, 32 and 64 bytes as single moves,
// other lengths up to 256 as moves that overlap, up to 32 KiB as a loop over lines, longer ones by the C library.
//
// A second family takes two loops at once.  Small blocks: for plans in which one side is visited across the grain
// (transposes), squares of one cache line by one cache line, so that both sides use whole lines.  Longer blocks: the
// inner loop may be short.
//
// A third one takes lists of pieces, for patterns without regularity or with too little of it.

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

/// One piece of a list, relative to the list's first.
struct ListPiece {
  std::int32_t source;
  std::int32_t target;
  std::uint32_t length;
};

/// Copies all pieces of a list, for each of `step.count` turns.
using ListKernel = void (*)(const std::byte* source, std::byte* target, const ListPiece* pieces, std::size_t count,
                            const Step& step);

/// Copies blocks of one length between an array and the places that an index names: target[i] = source[index[i]]
/// (gather) or target[index[i]] = source[i] (scatter).  The index counts bytes.
using IndexKernel = void (*)(const std::byte* source, std::byte* target, const std::int32_t* index, std::size_t count);

struct IndexKernels {
  IndexKernel gather = nullptr;
  IndexKernel scatter = nullptr;
};

/// Copies bytes, like memcpy.
using PieceKernel = void (*)(const std::byte* source, std::byte* target, Offset length);

Kernel choose_kernel(Offset length) noexcept;
/// Null if there is none for that length.
TileKernel choose_tile_kernel(Offset length) noexcept;
/// For loops along the grain.  Null if there is none for that length.
TileKernel choose_row_kernel(Offset length) noexcept;
PieceKernel choose_piece_kernel() noexcept;
ListKernel choose_list_kernel() noexcept;
/// Null if there are none for that length.
IndexKernels choose_index_kernels(Offset length) noexcept;

/// A kernel that writes around the caches, where there is one: words that become adjacent in the target, blocks of
/// whole cache lines, long blocks.  Null otherwise.
Kernel choose_bypass_kernel(Offset length, const Step& step) noexcept;

/// Makes writes that went around the caches visible before later ones.
void fence() noexcept;

}  // namespace weir::transfer::internal
