#pragma once

// Between messages and subfiles: bytes of a view, or pieces, to and from a store.
//
// Large pieces go to the store as they are, in lists.  Small ones that lie close together are worked on in windows of
// the subfile: in the store's own memory where it has such; otherwise the window is read, changed and written back
// whole.
//
//   pieces        ▉   ▉ ▉▉   ▉              ██████████████         ▉▉ ▉
//                 └─ window ─┘              └─── as is ──┘         window
//
// Pieces further apart than kMostGap do not share a window, so that holes stay holes.  Only stores without memory ever
// see bytes written back that nobody wrote: clients write into shared memory at the same time, and those bytes are
// theirs.

#include <cstddef>
#include <span>
#include <vector>

#include <weir/base/result.h>
#include <weir/storage/store.h>
#include <weir/transfer/range_packing.h>

namespace weir::server::internal {

inline constexpr Offset kSmallPiece = 4096;
inline constexpr Offset kMostGap = 4096;
inline constexpr Offset kMostWindow = Offset{4} << 20;

/// Bytes [offset, offset + length) of a subfile are bytes [at, at + length) of a message.
struct MessagePiece {
  Offset offset = 0;
  Offset length = 0;
  Offset at = 0;
};

/// \threadsafety One thread at a time.
class SubfileIo {
 public:
  explicit SubfileIo(storage::Store& store) : store_(store) {}

  /// Bytes [range.from, range.to) of a view.  \pre message.size() == packing.bytes(range)
  Status read(storage::SubfileId id, const transfer::RangePacking& packing, transfer::Range range,
              std::span<std::byte> message);
  Status write(storage::SubfileId id, const transfer::RangePacking& packing, transfer::Range range,
               std::span<const std::byte> message, Offset file_end);

  /// \pre The pieces lie in [0, 2^62] and in the message.
  Status read(storage::SubfileId id, std::vector<MessagePiece> pieces, std::span<std::byte> message);
  /// \error kInvalidArgument if pieces overlap
  Status write(storage::SubfileId id, std::vector<MessagePiece> pieces, std::span<const std::byte> message,
               Offset file_end);

 private:
  class Transfer;
  class Read;
  class Write;

  storage::Store& store_;
  std::vector<std::byte> window_;   // what a store without memory has there
  std::vector<std::byte> message_;  // the part of a message that a window needs
};

}  // namespace weir::server::internal
