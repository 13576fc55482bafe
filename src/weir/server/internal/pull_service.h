#pragma once

// A relayout's way for bytes: a server reads what its new subfile gets from the old subfiles, and writes it.
//
//   Pull{range of the new subfile} ──> window ──┬── ReadView, ReadPieces ──> servers of the old subfiles  (itself included)
//                                               └── WritePieces ──> this server
//
// The new subfile is to the old ones what a view is to a client: it is intersected with each, and ranges travel as two
// offsets of a registered view, or as lists of pieces where the two fit too badly together.  A few windows are under way
// at a time.  Blocks that are all zero are not written, so holes stay holes.

#include <cstdint>
#include <memory>

#include <weir/server/internal/access.h>
#include <weir/server/internal/buffers.h>
#include <weir/server/internal/call.h>
#include <weir/server/internal/peers.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time: that of the event loop.
class PullService {
 public:
  static constexpr Offset kWindowBytes = Offset{1} << 20;
  static constexpr Offset kZeroBlock = Offset{64} << 10;            ///< The shortest hole that stays one.
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;  ///< Of all windows together.

  /// \pre Both outlive it.
  PullService(Peers& peers, const AccessControl& access);

  /// Answers the call, now or later.  \returns false if it is not for this service
  bool handle(const CallPtr& call);

 private:
  class Pull;
  Peers& peers_;
  const AccessControl& access_;
  std::uint64_t views_ = 0;  // numbers given to views
  std::shared_ptr<Buffers> buffers_;
};

}  // namespace weir::server::internal
