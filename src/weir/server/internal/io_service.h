#pragma once

// The I/O service of a target: subfiles, views registered on them, and bodies of messages on their way between the
// network and the store.
//
//   write, contiguous in the subfile, store has memory    body ──────────────────> memory of the subfile
//   write, otherwise                                      body ──> buffer ──plan──> subfile
//   read                                                  the mirror image
//
// A store whose calls wait for a disk is worked on by a thread of its own (StoreThread), one call after the other; the
// event loop goes on meanwhile and does the rest: it alone knows of calls, buffers, views, turns and fences.  Short
// calls it makes itself if that thread is idle.
//
// Who holds the key of the file system is trusted here: owners and modes are checked where names are looked up, by the
// metadata service; a subfile has neither.  What comes in is checked all the same: lengths, ranges, numbers of things.
// Memory is shared for writing only with those who ask for it.
//
// A subfile that is fenced (its file gets another layout) refuses writes.  A fence is in memory only until it is
// confirmed; who raised it is told when it asks for it to be confirmed if it was not up all the time.  One that is
// confirmed and whose client is gone stays: clients that meet it end the relayout.
//
// Numbers of files are never used twice, so a subfile that was removed stays removed: late requests for it get kStale
// instead of making it again.  The server remembers the last kMostRemoved of them.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <weir/server/internal/buffers.h>
#include <weir/server/internal/call.h>
#include <weir/server/internal/handover_server.h>
#include <weir/server/internal/store_thread.h>
#include <weir/server/internal/subfile_io.h>
#include <weir/server/internal/turns.h>
#include <weir/server/internal/views.h>
#include <weir/storage/store.h>

namespace weir::server::internal {

/// Bytes of one message that cannot go straight to their place.  Longer transfers come in parts.
inline constexpr std::size_t kMostBodyBytes = std::size_t{256} << 20;
/// A range of a view, of which a target has only some bytes, may be longer.
inline constexpr Offset kMostViewRange = Offset{1} << 44;
inline constexpr std::size_t kMostRemoved = std::size_t{1} << 18;

/// \threadsafety One thread at a time: that of the event loop.
class IoService {
 public:
  using Post = std::function<void(std::function<void()>)>;

  struct Options {
    std::string host;                                   ///< Callers with this one can be given memory.
    HandoverServer* handover = nullptr;                 ///< Null: memory is not shared.
    std::size_t buffer_bytes = std::size_t{512} << 20;  ///< All buffers together.
    std::uint64_t boot = 0;                             ///< Of the server.
    Post post = {};                                     ///< Runs a task in the event loop, soon; safe from any thread.
    /// How long a fence stays that is not confirmed and whose caller is gone: it may come back.
    std::chrono::milliseconds fence_grace{15'000};
  };

  IoService(storage::Store& store, Options options);

  /// Answers the call, now or later.  \returns false if it is not for this service
  bool handle(const CallPtr& call);
  /// Of subfiles that were being given a new layout when the server ended.  Before anything is handled.
  Status restore_fences();
  void drop(net::PeerId peer);
  /// All servers of the file system are up: notes their number in the label of the store, durably, if there is one.
  /// \error kInvalidArgument if it was made by another number
  Status form(std::uint32_t servers);

  [[nodiscard]] std::size_t view_count() const noexcept { return views_.size(); }

  /// Makes durable what was written since it last was.  \error the first of any
  Status sync_all();

 private:
  using SubfileId = storage::SubfileId;
  using Range = transfer::Range;

  void register_view(const CallPtr& call, const wire::RegisterViewT& request);
  void read_view(const CallPtr& call, const wire::ReadViewT& request);
  void write_view(const CallPtr& call, const wire::WriteViewT& request);
  void read_pieces(const CallPtr& call, const wire::ReadPiecesT& request);
  void write_pieces(const CallPtr& call, const wire::WritePiecesT& request);
  void truncate(const CallPtr& call, const wire::TruncateT& request);
  void reserve(const CallPtr& call, const wire::ReserveT& request);
  void sync(const CallPtr& call, const wire::SyncT& request);
  void sync_subfiles(const CallPtr& call);
  void remove(const CallPtr& call, const wire::RemoveSubfileT& request);
  void note_removed(SubfileId id);
  void inspect(const CallPtr& call, const wire::InspectT& request);
  void list(const CallPtr& call, const wire::ListSubfilesT& request);
  void usage(const CallPtr& call, const wire::UsageOfT& request);
  void describe(const CallPtr& call, const wire::DescribeT& request);
  void share(const CallPtr& call, const wire::ShareT& request);
  void fence(const CallPtr& call, const wire::FenceT& request);
  Result<wire::HandoverT> hand_over(const net::Identity& who, SubfileId id, const wire::ShareT& request);

  struct SyncedSubfiles {
    Status first_error;
    std::set<SubfileId> failed;
  };
  SyncedSubfiles sync_each(const std::set<SubfileId>& ids);

  enum class Use { kRead, kWrite };
  enum class Length { kShort, kLong };
  /// Calls `work`, which must see to it that leave(id) is called, when it is the call's turn on the subfile; answers
  /// the call itself if that is too late, or the subfile is gone, or must not be written.
  void in_turn(const CallPtr& call, SubfileId id, Use use, Turns::Kind kind, std::function<void()> work);
  /// The same for `work(id)` of the store; answers what `then(result)` makes of its result.
  template <typename Work, typename Then>
  void answer_in_turn(const CallPtr& call, const wire::Subfile* subfile, Use use, Length length, Work work, Then then);

  /// Calls `work` where the store is worked on, then `then(result)` in the event loop; maybe both before this returns.
  /// `work` holds nothing that belongs to the event loop.
  template <typename Work, typename Then>
  void at_store(const CallPtr& call, Length length, Work work, Then then);
  /// The same for what is rare: waits.
  template <typename Work>
  auto wait_at_store(Work work) -> decltype(work());
  [[nodiscard]] static Length length_of(std::size_t bytes);

  struct Fence {
    std::uint64_t token = 0;
    net::PeerId peer = 0;
    bool is_confirmed = false;
    std::optional<net::Clock::time_point> lost;  // since when its caller is gone
  };
  Status raise_fence(SubfileId id, std::uint64_t token, net::PeerId peer);
  Status confirm_fence(SubfileId id, std::uint64_t token, net::PeerId peer);
  void lower_fence(SubfileId id);
  /// The relayout has lost its client, and may be ended by others.
  [[nodiscard]] bool is_abandoned(const Fence& fence) const;
  void tell_fence(SubfileId id, bool is_fenced);
  // Those that are confirmed outlive this process.
  Status keep_fences();
  /// Null: none, or one that has fallen by now.
  Fence* fence_of(SubfileId id);

  using ReadInto = std::function<Status(std::span<std::byte>)>;
  using WriteFrom = std::function<Status(std::span<const std::byte>)>;
  void read_contiguous(const CallPtr& call, SubfileId id, Range range);
  void read_buffered(const CallPtr& call, SubfileId id, Offset bytes, ReadInto read);
  void write_end(const CallPtr& call, SubfileId id, Offset file_end);
  void write_contiguous(const CallPtr& call, SubfileId id, Offset from, Offset file_end);
  void write_buffered(const CallPtr& call, SubfileId id, WriteFrom write);
  [[nodiscard]] Turns::Kind buffered_turn() const {
    return store_.waits() ? Turns::Kind::kTogether : Turns::Kind::kAlone;
  }

  storage::Store& store_;
  Options options_;
  SubfileIo io_;
  Views views_;
  Turns turns_;
  std::map<SubfileId, Fence> fences_;
  std::set<SubfileId> dirty_;
  std::set<SubfileId> removed_;
  std::deque<SubfileId> removed_in_order_;
  std::shared_ptr<Buffers> buffers_;     // behind them: callers that wait for one go before what they use
  std::unique_ptr<StoreThread> thread_;  // if the store waits; last: it uses the store
};

}  // namespace weir::server::internal
