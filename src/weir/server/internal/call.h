#pragma once

// A request that is being worked on, shared by the callbacks that its work is cut into.

#include <memory>
#include <span>
#include <utility>

#include <weir/base/result.h>
#include <weir/net/net.h>
#include <weir/wire/wire.h>

namespace weir::server::internal {

struct ServerCall;

/// Told how calls end.  \threadsafety As its calls.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void ended(const ServerCall& call, const Status& status) = 0;
};

struct ServerCall {
  net::Request request;
  wire::RequestHeadT head;
  net::Deadline deadline;     ///< Of those that wait for other clients, as for locks.
  wire::CountersT& counters;  ///< Of the server.
  std::uint64_t boot = 0;     ///< Of the server.
  CallObserver* observer = nullptr;

  /// False once the caller is gone or has given up.  A call that waits for the store has no deadline otherwise: a slow
  /// disk is no error.
  [[nodiscard]] bool is_wanted() const { return request.is_wanted()->load(); }

  void fail(const Status& status) {
    if (observer != nullptr) observer->ended(*this, status);
    request.reply(wire::encode_failure(status, boot));
  }

  template <typename Table>
  void answer(Table table) {
    if (observer != nullptr) observer->ended(*this, Status::ok());
    request.reply(wire::encode_reply(std::move(table), boot));
  }
  template <typename Table>
  void answer(Result<Table> result) {
    result.is_ok() ? answer(std::move(result).value()) : fail(result.status());
  }
  void answer(const Status& status) { status.is_ok() ? answer(wire::DoneT{}) : fail(status); }

  /// Done, and a body that stays until `sent`.
  void answer_body(std::span<const std::byte> body, std::function<void()> sent) {
    counters.bytes_out += body.size();
    request.reply(wire::encode_reply(wire::DoneT{}, boot), body, std::move(sent));
  }
};

using CallPtr = std::shared_ptr<ServerCall>;

}  // namespace weir::server::internal
