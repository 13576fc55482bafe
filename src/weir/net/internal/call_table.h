#pragma once

// Calls under way of one Caller, and those that are over but whose `done` has not been called yet.
//
// Results are kept until run_ready(): `done` is never called from within call() or a callback of UCX, so it may do anything, even end
// the connection.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <weir/net/net.h>

namespace weir::net::internal {

using CallId = std::uint64_t;

class CallTable {
 public:
  struct Pending {
    const void* owner = nullptr;  ///< The connection.
    Call call;
    std::optional<Reply> reply;       ///< The head has come; the body is still coming.
    std::size_t received_bytes = 0;   ///< Of the body of the reply.
    std::shared_ptr<void> transport;  ///< What else the transport has to know.
  };

  CallId add(const void* owner, Call call);
  /// Null if it is over.
  Pending* find(CallId id);
  /// The call is over: forgets it, and keeps the result for run_ready().  Nothing if it is not there.
  void finish(CallId id, Result<Reply> result);
  /// For a call that did not even begin.
  void refuse(const void* owner, Call call, Status why);

  [[nodiscard]] std::vector<CallId> expired(Clock::time_point now) const;
  [[nodiscard]] std::vector<CallId> calls_of(const void* owner) const;
  [[nodiscard]] Deadline next_deadline() const;

  [[nodiscard]] bool has_ready() const { return !ready_.empty(); }
  void run_ready();
  /// Those of one connection only.
  void run_ready_of(const void* owner);

 private:
  struct Ready {
    const void* owner;
    std::function<void(Result<Reply>)> done;
    Result<Reply> result;
  };

  std::unordered_map<CallId, Pending> calls_;
  std::set<std::pair<Deadline, CallId>> deadlines_;
  std::deque<Ready> ready_;
  CallId next_ = 1;
};

}  // namespace weir::net::internal
