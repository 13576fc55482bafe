#pragma once

// The engine that moves bytes between ranks: streams, cut into segments that are packed, sent and unpacked while others
// are under way.  It knows nothing of what the bytes mean.
//
//   Exchange exchange(group, "redistribution", pool, streams, pace_of(0));   once
//   exchange.share_memory();                                                collective; optional
//   exchange.reserve(1);  exchange.begin(1);                                as often as needed
//   while (!*exchange.advance(true)) {}
//
// A stream leads to or from one peer.  begin(n) moves n messages of the same length on each, one after the other: that
// is the stream's content.  It is cut into segments, each of which is one MPI message; both ends cut alike without
// talking about it:
//
//   segment         at most Pace::segment_bytes; at most kLongest if both ends are direct, so that no buffer is involved
//   few messages    (one is at least a segment) cut at the ends of messages, so that a direct end stays direct
//   many messages   (one is shorter) segments hold several; all ends are packed
//
// Per stream `Pace::depth` segments are under way at a time, each in a slot with a buffer of its own unless it is
// direct.  When a send completes, its slot is packed again; when a receive completes, its slot is unpacked and posted
// again.  So packing overlaps with sending, and unpacking with receiving.  Local work is done in small portions when no
// message is waiting, close behind the packing that reads the same memory.
//
// Between ranks on one host (after share_memory()) there are no messages: the sender packs into slots of a ring in
// shared memory and the receiver unpacks from there, so that every byte is moved twice and what lies between the two
// stays in the cache.  The stream is cut at slots only; direct ends make no difference.  In this case local work keeps
// pace with packing, too.
//
// Buffers start an odd number of cache lines apart.  The cache holds a power of two of lines, so lcm(distance, cache) =
// distance * cache, and buffers written in turn never compete for the same lines as long as there are fewer buffers
// than lines.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <weir/base/buffer_pool.h>
#include <weir/mpi/communicator.h>
#include <weir/runtime/runtime.h>

namespace weir::exchange {

namespace internal {
class Ring;
class SharedRoutes;
struct RingShape;
}  // namespace internal

/// Bytes [from, to) of a stream.
struct Range {
  Offset from = 0;
  Offset to = 0;
};

struct Stream {
  int peer = 0;
  Offset bytes = 0;              ///< Of one message; positive, and known at both ends.
  bool is_direct = false;        ///< `place` never returns null.
  bool is_direct_there = false;  ///< The same holds at the peer.
  /// Where these bytes lie in one in this rank's memory; null: they are packed.  Asked for bytes of one message only.
  /// Empty: all are packed.
  std::function<std::byte*(Range)> place;
  std::function<void(Range, std::byte* buffer)> pack;          ///< Of sends.
  std::function<void(Range, const std::byte* buffer)> unpack;  ///< Of receives.
};

/// Work of this rank alone, in portions.
struct Local {
  Offset portions = 0;  ///< For one message.
  std::function<void(Offset portion)> run;
};

struct Streams {
  std::vector<Stream> sends;  ///< At most one per peer; in the order in which to start them.
  std::vector<Stream> receives;
  Local local;
};

/// How streams are cut.  The same on all ranks.
struct Pace {
  Offset segment_bytes = 0;
  int depth = 2;
  Offset slot_bytes = 0;  ///< Of rings in shared memory.
  int slots = 2;
};

inline constexpr Offset kLongest = Offset{1} << 30;

/// The pace for buffers of so many bytes per stream.  0: no limit.  \pre bytes >= 0
Pace pace_of(Offset bytes_per_stream);

struct Sharing {
  bool is_on = true;  ///< A rank where it is not takes part, and is found by nobody.
  /// Ranks that pass different names do not find each other, as if they were on different hosts; for tests.
  std::string_view host = {};
  runtime::Random* random = runtime::system_runtime().random;
};

/// One exchange at a time.  All MPI calls are made by the caller's thread, and none is needed from other threads.
/// Group, pool, and all that streams use, must stay.
class Exchange {
 public:
  /// `call`: what messages name.
  Exchange(mpi::Communicator& group, std::string call, BufferPool& pool, Streams streams, Pace pace);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// From now on ranks on the same host exchange through shared memory, where there is any.  Collective over the group.
  /// \pre reserve() has not been called.
  Status share_memory(const Sharing& sharing = {});

  /// Makes sure of the buffers for so many messages.  Local.  \error kIoError if there is no memory.
  Status reserve(Offset messages);
  /// Gives them back.  \pre not is_active()
  void release();

  /// Posts receives and starts the first sends.  \pre not is_active(); reserve(messages) was ok.
  Status begin(Offset messages);

  /// Does what can be done now; if `may_block` and nothing can, waits, no longer than the limit of the group.
  /// \returns true when all is done.
  /// After an error this exchange is broken: messages may be under way for ever, and MPI may use all memory involved.
  /// \error kTimedOut names the ranks that did not come
  Result<bool> advance(bool may_block);

  [[nodiscard]] bool is_active() const { return is_active_; }
  [[nodiscard]] bool is_broken() const { return is_broken_; }
  [[nodiscard]] const Streams& streams() const { return streams_; }
  [[nodiscard]] const Pace& pace() const { return pace_; }
  /// Bytes of buffers that exchanging so many messages takes.
  [[nodiscard]] Offset buffer_bytes(Offset messages) const;
  /// Segments, or slots filled, that one message takes on the send (receive) stream of this position.
  [[nodiscard]] Offset segments_of(std::size_t index, bool is_send) const;
  [[nodiscard]] bool is_shared(std::size_t index, bool is_send) const { return ring_of(index, is_send) != nullptr; }

 private:
  // The segments of a stream.
  class Segments {
   public:
    Segments() = default;
    Segments(const Stream& stream, Offset messages, const Pace& pace);
    Segments(const Stream& stream, Offset messages, const internal::RingShape& ring);
    [[nodiscard]] Offset count() const { return count_; }
    [[nodiscard]] Range at(Offset index) const;
    [[nodiscard]] bool is_merged() const { return is_merged_; }
    [[nodiscard]] Offset longest() const;

   private:
    Offset message_ = 0;  // bytes of one message, or of all if merged
    Offset segment_ = 1;
    Offset per_message_ = 0;
    Offset count_ = 0;
    bool is_merged_ = false;
  };

  struct Channel {
    const Stream* stream = nullptr;
    bool is_send = false;
    internal::Ring* ring = nullptr;  // null: messages
    Segments segments;
    Offset next = 0;              // segment to start next
    std::byte* buffer = nullptr;  // of the first slot
    Offset slot_bytes = 0;        // 0: direct
  };
  // A segment under way.
  struct Slot {
    Range range;
    bool is_packed = false;
  };

  [[nodiscard]] Offset slot_bytes(const Stream& stream, Offset messages) const;
  [[nodiscard]] Offset message_buffer_bytes(Offset messages) const;
  [[nodiscard]] internal::Ring* ring_of(std::size_t index, bool is_send) const;
  [[nodiscard]] Segments segments_of(const Stream& stream, const internal::Ring* ring, Offset messages) const;
  [[nodiscard]] internal::RingShape ring_shape(const Stream& stream) const;
  template <typename Action>
  void for_streams(Action action) const;
  [[nodiscard]] Status check(int code, const char* function) const;

  void make_channels();
  Status start_next(std::size_t channel, std::size_t slot);
  Status start_all();
  Result<int> poll();
  Status finish_slot(std::size_t index);
  int move_slots();
  bool fill_slot(Channel& channel);
  static bool empty_slot(Channel& channel);
  [[nodiscard]] bool is_local_behind() const;
  void run_portion();
  Result<int> work();
  void drive_mpi() const;
  Result<bool> step(bool may_block);
  [[nodiscard]] bool is_done() const;

  mpi::Communicator& group_;
  std::string call_;
  BufferPool& pool_;
  Streams streams_;
  Pace pace_;
  std::unique_ptr<internal::SharedRoutes> shared_;
  BufferPool::Buffer memory_;

  Offset messages_ = 0;
  std::vector<Channel> channels_;      // receives, then sends
  std::vector<MPI_Request> requests_;  // depth per channel
  std::vector<Slot> in_slot_;
  std::vector<int> completed_;
  Offset open_ = 0;           // requests under way
  Offset slots_left_ = 0;     // to be filled or emptied
  Offset slots_to_fill_ = 0;  // in all
  Offset slots_filled_ = 0;
  Offset portions_ = 0;
  Offset portion_ = 0;
  bool is_active_ = false;
  bool is_broken_ = false;
};

}  // namespace weir::exchange
