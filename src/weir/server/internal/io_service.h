#pragma once

// The I/O service of a target: subfiles, views registered on them, and bodies of messages on their way between the
// network and the store.
//
//   write, contiguous in the subfile, store has memory    body ──────────────────> memory of the subfile
//   write, otherwise                                      body ──> buffer ──plan──> subfile
//   read                                                  the mirror image
//
// The store works on many operations at a time and keeps those in order that conflict; the event loop goes on meanwhile
// and never waits for it.
//
// Callers have presented capabilities for the subfiles that they name: access.h.  What comes in is checked as well:
// lengths, ranges, numbers of things.  Memory is shared for writing only with those who ask for it and may.
//
// A subfile that is fenced (its file gets another layout) refuses writes.  A fence is in memory only until it is
// confirmed; who raised it is told when it asks for it to be confirmed if it was not up all the time.  One that is
// confirmed and whose client is gone stays: clients that meet it end the relayout.
//
// Numbers of files are never used twice, so a subfile that was removed stays removed: late requests for it get kStale
// instead of making it again.  The server remembers the last kMostRemoved of them; of those that a relayout replaced,
// the last kMostKeptRemoved also after a restart, since clients may still have the old layout.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include <weir/base/task.h>
#include <weir/runtime/runtime.h>
#include <weir/server/internal/access.h>
#include <weir/server/internal/assembly.h>
#include <weir/server/internal/buffers.h>
#include <weir/server/internal/call.h>
#include <weir/server/internal/fair_share.h>
#include <weir/server/internal/space.h>
#include <weir/server/internal/subfile_io.h>
#include <weir/server/internal/turns.h>
#include <weir/server/internal/views.h>
#include <weir/share/handover_server.h>
#include <weir/storage/store.h>
#include <weir/storage/store_tasks.h>

namespace weir::server::internal {

/// Bytes of one message that cannot go straight to their place.  Longer transfers come in parts.
inline constexpr std::size_t kMostBodyBytes = std::size_t{256} << 20;
/// A range of a view, of which a target has only some bytes, may be longer.
inline constexpr Offset kMostViewRange = Offset{1} << 44;
/// Bytes that the store is asked to read or write at a time, of messages that need buffers; short ones count as more, since
/// a store has to seek for them.
inline constexpr std::size_t kMostStoreBytes = std::size_t{64} << 20;
inline constexpr std::size_t kLeastStoreCost = std::size_t{64} << 10;
inline constexpr std::size_t kMostRemoved = std::size_t{1} << 18;
/// Of those, as many that a relayout replaced outlive the server's process.
inline constexpr std::size_t kMostKeptRemoved = 4096;
/// In place of the token of a kept fence: the subfile was removed.
inline constexpr std::uint64_t kRemovedToken = ~std::uint64_t{0};

/// \threadsafety One thread at a time: that of the event loop.
class IoService {
 public:
  struct Options {
    std::string host;                                   ///< Callers with this one can be given memory.
    share::HandoverServer* handover = nullptr;          ///< Null: memory is not shared.
    std::size_t buffer_bytes = std::size_t{512} << 20;  ///< All buffers together.
    Views::Most most_views{};                           ///< Of one client.
    std::uint64_t boot = 0;                             ///< Of the server.
    /// How long a fence stays that is not confirmed and whose caller is gone: it may come back.
    std::chrono::milliseconds fence_grace{15'000};
    runtime::Runtime runtime = runtime::system_runtime();
  };

  IoService(storage::Store& store, AccessControl& access, Options options);

  /// Subfiles grow as far as that allows.  \pre it outlives the object, or stop() of the store
  void meter_by(Space* space) { space_ = space; }

  /// Answers the call, now or later.  \returns false if it is not for this service
  bool handle(const CallPtr& call);
  /// Of subfiles that were being given a new layout when the server ended.  Waits; before anything is handled.
  Status restore_fences();
  void drop(net::PeerId peer);
  /// All servers of the file system are up: notes their number in the label of the store, durably, if there is one.
  /// \error kInvalidArgument if it was made by another number
  Task<Status> form(std::uint32_t servers) { return form_label(store_, servers); }

  [[nodiscard]] std::size_t view_count() const noexcept { return views_.size(); }

  /// Makes durable what was written since it last was.  Waits; when nothing is handled any more.  \error the first of
  /// any
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
  [[nodiscard]] Status may_describe(const ServerCall& call, SubfileId id, std::span<const std::uint8_t> about) const;
  void share(const CallPtr& call, const wire::ShareT& request);
  void fence(const CallPtr& call, const wire::FenceT& request);
  void meter(const CallPtr& call, const wire::MeterSpaceT& request);
  Result<wire::HandoverT> hand_over(const ServerCall& call, SubfileId id, const wire::ShareT& request);

  [[nodiscard]] storage::IoBatch sync_dirty() const;
  Status note_synced(const storage::IoBatch& syncs);

  enum class Use { kRead, kWrite };
  /// Calls `work`, which must see to it that leave(id) is called, when it is the call's turn on the subfile; answers
  /// the call itself if that is too late, or the subfile is gone, must not be written, or must not become `end` bytes
  /// long.
  void in_turn(const CallPtr& call, SubfileId id, Use use, Turns::Kind kind, std::function<void()> work,
               Offset end = 0);
  /// The same for `work(id)`, a task; answers what `then(result)` makes of its result.
  template <typename Work, typename Then = std::identity>
  void answer_in_turn(const CallPtr& call, const wire::Subfile* subfile, Use use, Work work, Then then = {},
                      Offset end = 0);

  struct Fence {
    std::uint64_t token = 0;
    net::PeerId peer = 0;
    bool is_confirmed = false;
    std::optional<runtime::TimePoint> lost;  // since when its caller is gone
  };
  Task<Status> change_fence(SubfileId id, net::PeerId peer, wire::FenceAction action, std::uint64_t token);
  Task<Status> raise_fence(SubfileId id, std::uint64_t token, net::PeerId peer);
  Task<Status> confirm_fence(SubfileId id, std::uint64_t token, net::PeerId peer);
  /// \returns whether it was confirmed, and keep_fences() is due
  bool lower_fence(SubfileId id);
  /// The relayout has lost its client, and may be ended by others.
  [[nodiscard]] bool is_abandoned(const Fence& fence) const;
  void tell_fence(SubfileId id, bool is_fenced);
  // Those that are confirmed outlive this process.
  Task<Status> keep_fences();
  /// Null: none, or one that has fallen by now.
  Fence* fence_of(SubfileId id);

  using ReadInto = std::function<Task<Status>(std::span<std::byte>)>;
  using WriteFrom = std::function<Task<Status>(std::span<const std::byte>)>;
  void read_contiguous(const CallPtr& call, SubfileId id, Range range);
  void read_buffered(const CallPtr& call, SubfileId id, Offset bytes, ReadInto read);
  void write_contiguous(const CallPtr& call, SubfileId id, Offset from, Offset file_end);
  void write_buffered(const CallPtr& call, SubfileId id, Turns::Kind kind, Offset end, WriteFrom write);

  /// Calls `work` once the peer may give the store so many bytes to read or write; leave_store() ends it.  The store
  /// needs nobody's help to come to that end, so no peer can keep others from it by doing nothing.
  template <typename Work>
  void use_store(net::PeerId peer, std::size_t bytes, Work work) {
    store_share_.ask(peer, store_cost(bytes), std::move(work));
  }
  void leave_store(net::PeerId peer, std::size_t bytes) { store_share_.give_back(peer, store_cost(bytes)); }
  static std::size_t store_cost(std::size_t bytes) { return std::clamp(bytes, kLeastStoreCost, kMostStoreBytes / 2); }

  storage::Store& store_;
  AccessControl& access_;
  Space* space_ = nullptr;
  const storage::Capabilities can_;
  Options options_;
  SubfileIo io_;
  Views views_;
  Turns turns_;
  std::map<SubfileId, Fence> fences_;
  std::set<SubfileId> dirty_;
  std::set<SubfileId> removed_;
  std::deque<SubfileId> removed_in_order_;
  std::deque<SubfileId> kept_removed_;
  FairShare store_share_{{.most = kMostStoreBytes, .most_of_one = kMostStoreBytes / 2, .quantum = kLeastStoreCost}};
  std::shared_ptr<Buffers> buffers_;  // behind them: callers that wait for one go before what they use
};

}  // namespace weir::server::internal
