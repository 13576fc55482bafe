#pragma once

// The engine: moves bytes between ranks by plan, and knows nothing of layouts.
//
// A route leads to or from one peer.  What travels on it is a stream: the route's message of the first array, then that
// of the second, ...  The stream is cut into segments, each of which is one MPI message; both ends cut alike without
// talking about it:
//
//   segment       at most Pace::segment_bytes; at most kLongest if both ends are direct, so that no buffer is involved
//   few arrays    (a message is at least a segment) cut at the ends of arrays, so that a direct end stays direct
//   many arrays   (a message is shorter) segments hold the messages of several arrays; all ends are packed
//
// Per route `Pace::depth` segments are on their way at a time, each in a slot with a buffer of its own unless it is
// direct.  When a send completes, its slot is packed again; when a receive completes, its slot is unpacked and posted
// again.  So packing overlaps with sending, and unpacking with receiving.  Local parts are copied in small portions
// when no message is waiting, close behind the packing that reads the same memory.
//
// Between ranks on one host (after share_memory()) there are no messages: the sender packs into slots of a ring in
// shared memory and the receiver unpacks from there, so that every byte is moved twice and what lies between the two
// stays in the cache.  The stream is cut at slots only; direct ends make no difference.  In this case local copies keep
// pace with packing, too.
//
// Buffers start an odd number of cache lines apart.  The cache holds a power of two of lines, so lcm(distance, cache) =
// distance * cache, and buffers written in turn never compete for the same lines as long as there are fewer buffers
// than lines.

#include <memory>
#include <span>
#include <vector>

#include <weir/redist/arrays.h>
#include <weir/redist/internal/agreement.h>
#include <weir/redist/internal/shared_routes.h>
#include <weir/transfer/plan.h>

namespace weir::redist::internal {

using transfer::Range;

struct Route {
  int peer = 0;
  Offset bytes = 0;  ///< Of the message of one array; positive.
  transfer::Plan
      plan;  ///< Sends: from the source to the message, key: target.  Receives: message to target, key: source.
  std::optional<Offset> direct;  ///< The message is this rank's memory from here on.
  bool is_direct_there = false;  ///< The same holds at the peer.
};

/// Bytes that stay: plan from source to target, key: source.
struct LocalCopy {
  transfer::Plan plan;
  Offset bytes = 0;
  Range range;  ///< Of the source.
};

struct Traffic {
  std::vector<Route> sends;  ///< At most one per peer; in the order in which to start them.
  std::vector<Route> receives;
  std::optional<LocalCopy> local;
};

/// How streams are cut.  The same on all ranks.
struct Pace {
  Offset segment_bytes = 0;
  int depth = 2;
  Offset slot_bytes = 0;  ///< Of rings in shared memory.
  int slots = 2;
};

inline constexpr Offset kLongest = Offset{1} << 30;

/// The pace for buffers of `bytes` per route.  0: no limit.  \pre bytes >= 0
Pace pace_of(Offset bytes_per_route);

/// The segments of a stream.
class Segments {
 public:
  Segments() = default;
  Segments(const Route& route, Offset arrays, const Pace& pace);
  /// Of a stream through a ring.
  Segments(const Route& route, Offset arrays, const RingShape& ring);
  [[nodiscard]] Offset count() const { return count_; }
  [[nodiscard]] Range at(Offset index) const;
  [[nodiscard]] bool is_merged() const { return is_merged_; }
  [[nodiscard]] Offset longest() const;

 private:
  Offset message_ = 0;  // bytes of one array, or of all if merged
  Offset segment_ = 1;
  Offset per_message_ = 0;
  Offset count_ = 0;
  bool is_merged_ = false;
};

/// One exchange at a time.  All MPI calls are made by the caller's thread.
class Exchange {
 public:
  Exchange(MPI_Comm comm, Traffic traffic, Pace pace);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// From now on ranks on the same host exchange through shared memory, where there is any.  Collective over `group`,
  /// which is that of the constructor.  \pre reserve() has not been called.  \param host see SharedRoutes::connect
  Status share_memory(Group& group, std::string_view host = {});

  /// Makes sure of the buffers for so many arrays.  Local.  \error kIoError if there is no memory.
  Status reserve(std::size_t arrays);

  /// Posts receives and starts the first sends.  \pre not is_active(); reserve(arrays.size()) was ok.
  Status begin(std::span<const Arrays> arrays);

  /// Does what can be done now; if `may_block` and nothing can, waits.  \returns true when all is done.
  /// After an error this exchange is broken: messages may be on their way for ever.
  Result<bool> advance(bool may_block);

  [[nodiscard]] bool is_active() const { return is_active_; }
  [[nodiscard]] bool is_broken() const { return is_broken_; }
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }
  [[nodiscard]] const Pace& pace() const { return pace_; }
  /// Bytes of buffers that exchanging so many arrays takes.
  [[nodiscard]] Offset buffer_bytes(Offset arrays) const;
  /// Messages, or slots filled, that one array takes on the send (receive) route of this position.
  [[nodiscard]] Offset messages_of(std::size_t index, bool is_send) const;
  [[nodiscard]] bool is_shared(std::size_t index, bool is_send) const { return ring_of(index, is_send) != nullptr; }

 private:
  struct Channel {
    const Route* route = nullptr;
    bool is_send = false;
    Ring* ring = nullptr;  // null: messages
    Segments segments;
    Offset next = 0;              // segment to start next
    std::byte* buffer = nullptr;  // of the first slot; null: direct
    Offset slot_bytes = 0;
  };

  [[nodiscard]] bool is_packed(const Channel& channel) const;
  [[nodiscard]] Offset slot_bytes(const Route& route, Offset arrays) const;
  [[nodiscard]] Offset message_buffer_bytes(Offset arrays) const;
  [[nodiscard]] Ring* ring_of(std::size_t index, bool is_send) const;
  [[nodiscard]] Segments segments_of(const Route& route, const Ring* ring, Offset arrays) const;
  [[nodiscard]] RingShape ring_shape(const Route& route) const;
  template <typename Action>
  void for_routes(Action action) const;

  void make_channels();
  void make_portions();
  Status start_next(std::size_t channel, std::size_t slot);
  Status start_sends();
  Result<int> poll();
  Status finish_slot(std::size_t index);
  void* place_of(const Channel& channel, std::size_t slot, Range range) const;
  void pack(const Channel& channel, Range range, std::byte* buffer) const;
  void unpack(const Channel& channel, Range range, const std::byte* buffer) const;
  int move_slots();
  bool fill_slot(Channel& channel);
  bool empty_slot(Channel& channel);
  [[nodiscard]] bool is_local_behind() const;
  void copy_portion();
  Result<int> work();
  void drive_mpi() const;
  Result<bool> step(bool may_block);
  [[nodiscard]] bool is_done() const;

  MPI_Comm comm_;
  Traffic traffic_;
  Pace pace_;
  std::unique_ptr<SharedRoutes> shared_;
  std::unique_ptr<std::byte[]> memory_;
  Offset memory_bytes_ = 0;

  std::vector<Arrays> arrays_;
  std::vector<Channel> channels_;      // receives, then sends
  std::vector<MPI_Request> requests_;  // depth per channel
  std::vector<Offset> in_slot_;        // segment in each slot
  std::vector<int> completed_;
  Offset open_ = 0;           // requests under way
  Offset slots_left_ = 0;     // to be filled or emptied
  Offset slots_to_fill_ = 0;  // in all
  Offset slots_filled_ = 0;
  bool bypass_cache_ = false;
  Offset portions_ = 0;
  Offset portion_ = 0;
  bool is_active_ = false;
  bool is_broken_ = false;
};

}  // namespace weir::redist::internal
