#pragma once

// How much the subfiles of this server take, held against leases of server 0: docs/decisions/021-quotas.md.
//
//   subfile grows ── has the lease of its file room? ──yes──> it grows
//                               └─no──> LeaseSpace to server 0 ── more ──> it grows
//                                                              └─ kQuota ──> the request is refused
//
// A subfile takes its length, holes included, in units of 4 KiB: the farthest byte that a write, a truncation or a
// reservation of mapped memory has reached.  That is counted before it grows, so whatever a client does then stays
// within the lease.  What it takes is found out again from the store with every start.
//
//   kOff       nobody has a limit: nothing is asked or remembered
//   kCounting  subfiles are looked at; those that want to grow wait
//   kOn
//
// One LeaseSpace is in flight at a time; what comes meanwhile goes together with the next.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include <weir/base/task.h>
#include <weir/runtime/runtime.h>
#include <weir/server/internal/call.h>
#include <weir/server/internal/peers.h>
#include <weir/storage/store.h>

namespace weir::server::internal {

inline constexpr Offset kSpaceUnit = 4096;

/// \threadsafety One thread at a time: that of the event loop.
class Space {
 public:
  using SubfileId = storage::SubfileId;
  using Done = std::function<void(const Status&)>;
  struct Options {
    std::uint64_t boot = 0;  ///< Of the server.
    /// Runs a task in the event loop after a time.
    std::function<void(std::chrono::milliseconds, std::function<void()>)> after = {};
  };

  Space(storage::Store& store, Peers& peers, Options options);

  [[nodiscard]] bool is_metered() const { return state_ != State::kOff; }
  /// Calls `done` once the subfile may be `end` bytes long.  \pre is_metered(); the caller has a turn on the subfile
  /// \error kQuota; kUnavailable if server 0 cannot be asked
  void grow(SubfileId id, Offset end, Done done);
  /// The subfile has this length now.  Calls `done` once server 0 knows what that has freed, or cannot be told.
  void truncated(SubfileId id, Offset length, std::function<void()> done);
  void removed(SubfileId id);

  /// Asks server 0 whether anybody has a limit, until it answers.
  void ask_server_zero();
  /// Answers MeterSpace.
  void meter(const CallPtr& call, const wire::MeterSpaceT& request);
  void stop();

 private:
  enum class State : std::uint8_t { kOff, kCounting, kOn };
  struct Growth {
    SubfileId id;
    Offset end = 0;
    Done done;
  };
  struct Data {
    Offset used = 0;
    Offset held = 0;
    std::deque<Growth> waiting;
    bool is_asking = false;
    bool has_shrunk = false;
  };

  void switch_off();
  void shrink(SubfileId id, Offset length);
  void count();
  Task<Status> measure_all();
  Task<Status> measure(SubfileId id);
  void measured(SubfileId id, Offset bytes);
  void finish_counting();
  void grow_known(SubfileId id, Offset end, Done done);
  /// Whether it needs no larger lease; then it has grown.
  bool fits(const Growth& growth);
  void give_back(std::uint64_t data);
  wire::HeldSpace held_now(std::uint64_t data, Offset bytes);
  void send();
  void answered(const std::vector<std::uint64_t>& reported, const std::vector<std::uint64_t>& asked,
                const Result<wire::ReplyHeadT>& reply);
  void settle(std::uint64_t number, const Status& status, Offset granted);
  void answer_held(const CallPtr& call);

  storage::Store& store_;
  Peers& peers_;
  Options options_;
  State state_ = State::kOff;
  bool is_stopped_ = false;
  bool is_asking_zero_ = false;         // whether anybody has a limit
  std::map<SubfileId, Offset> reach_;   // what each subfile takes
  std::map<std::uint64_t, Data> data_;  // of subfiles with the same `file`
  std::set<std::uint64_t> changed_;     // server 0 does not know yet what is held of these
  std::set<std::uint64_t> asks_;        // of these, more is needed
  bool is_complete_ = false;            // server 0 has been told all
  bool is_in_flight_ = false;           // a LeaseSpace
  std::uint64_t sequence_ = 0;
  std::vector<Growth> held_up_;                 // until subfiles are counted
  std::vector<std::function<void()>> untold_;   // called once server 0 knows what is in changed_
  std::vector<std::function<void()>> counted_;  // called then
  std::uint64_t life_ = 0;                      // of the counts: what was started in an earlier one is of no use
};

}  // namespace weir::server::internal
