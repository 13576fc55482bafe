#pragma once

// The rings between a rank and those others of its communicator that run on the same host.
//
// Every rank that sends makes one piece of shared memory, its outbox, with a ring for each receiver.  The name is made
// of a random number that all ranks agree on, so a receiver on the same host finds it, and one elsewhere does not:
// nobody has to know which ranks are where, and containers that hide shared memory from each other count as hosts.  A
// receiver joins its ring; a sender uses the rings that were joined, and sends messages to the others.
//
// What a crash leaves behind: the memory under its name if it happens while connecting; the names are gone afterwards.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <weir/exchange/exchange.h>
#include <weir/exchange/internal/shared_memory.h>
#include <weir/exchange/internal/shared_ring.h>

namespace weir::exchange::internal {

struct RingRequest {
  int receiver = 0;
  RingShape shape;
};

class SharedRoutes {
 public:
  SharedRoutes() = default;

  /// Collective over `group`.  Lack of shared memory is no error: then there are no rings.
  /// \pre At most one ring per receiver.
  static Result<SharedRoutes> connect(mpi::Communicator& group, std::string_view call,
                                      std::span<const RingRequest> sends, std::span<const int> senders,
                                      const Sharing& sharing);

  /// By position in what was passed; null if the peer is not on this host.
  [[nodiscard]] Ring* send_ring(std::size_t index) { return at(sends_, index); }
  [[nodiscard]] Ring* receive_ring(std::size_t index) { return at(receives_, index); }

 private:
  using Rings = std::vector<std::optional<Ring>>;
  static Ring* at(Rings& rings, std::size_t index) {
    return index < rings.size() && rings[index] ? &*rings[index] : nullptr;
  }

  SharedMemory outbox_;
  std::vector<SharedMemory> inboxes_;
  Rings sends_;
  Rings receives_;
};

}  // namespace weir::exchange::internal
