#pragma once

// Calls under way of one Caller, and those that are over but whose `done` has not been called yet.
//
// Results are kept until run_ready(): `done` is never called from within call() or a callback of a transport, so it may do
// anything, even end the connection.

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
    bool has_sign = false;            ///< Of life, since it was last looked at.
    bool is_asked = false;            ///< The server, for one.
    Deadline next_look;               ///< When it is to be looked at again.
    std::shared_ptr<void> transport;  ///< What else the transport has to know.
  };

  CallId add(const void* owner, Call call);
  /// Null if it is over.
  Pending* find(CallId id);
  /// The call is over: forgets it, and keeps the result for run_ready().  Nothing if it is not there.
  void finish(CallId id, Result<Reply> result);
  /// For a call that did not even begin.
  void refuse(const void* owner, Call call, Status why);

  /// Those that are to be looked at.
  [[nodiscard]] std::vector<CallId> due(Deadline now) const;
  enum class Look { kWait, kAsk, kExpired };
  /// What is to be done about a call that is due.  A call with patience is looked at every half of it: it waits if
  /// there was a sign of life; otherwise the server is asked for one first, so that a caller that was stopped itself
  /// gives up nothing.
  Look look_at(CallId id, Deadline now);
  [[nodiscard]] std::vector<CallId> calls_of(const void* owner) const;
  [[nodiscard]] Deadline next_look() const;

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
  std::set<std::pair<Deadline, CallId>> looks_;
  std::deque<Ready> ready_;
  CallId next_ = 1;
};

}  // namespace weir::net::internal
