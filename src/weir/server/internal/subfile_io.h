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
#include <weir/base/task.h>
#include <weir/storage/store.h>
#include <weir/storage/store_tasks.h>
#include <weir/transfer/route.h>

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

/// Several accesses may be in flight together, but no other one to a subfile while pieces of it are written: a window
/// is read and written back.
/// \threadsafety One thread at a time.
class SubfileIo {
 public:
  explicit SubfileIo(storage::Store& store) : store_(store) {}

  /// Bytes [range.from, range.to) of a view.  \pre message.size() == route.bytes(range)
  /// What the arguments name stays until the task has ended.
  Task<Status> read(storage::SubfileId id, const transfer::Route& route, transfer::Range range,
                    std::span<std::byte> message, storage::IsWanted is_wanted = {});
  Task<Status> write(storage::SubfileId id, const transfer::Route& route, transfer::Range range,
                     std::span<const std::byte> message, Offset file_end, storage::IsWanted is_wanted = {});

  /// \pre The pieces lie in [0, 2^62] and in the message.
  Task<Status> read(storage::SubfileId id, std::vector<MessagePiece> pieces, std::span<std::byte> message,
                    storage::IsWanted is_wanted = {});
  /// \error kInvalidArgument if pieces overlap
  Task<Status> write(storage::SubfileId id, std::vector<MessagePiece> pieces, std::span<const std::byte> message,
                     Offset file_end, storage::IsWanted is_wanted = {});

 private:
  class Transfer;
  class Read;
  class Write;

  storage::Store& store_;
};

}  // namespace weir::server::internal
