#pragma once

// The metadata service on the wire: Metadata, Locks and CounterTable behind requests.

#include <functional>

#include <weir/server/internal/call.h>
#include <weir/server/internal/counter_table.h>
#include <weir/server/internal/locks.h>
#include <weir/server/internal/metadata.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time: that of the event loop.
class MetadataService {
 public:
  /// Calls a task at a time, on the thread of the event loop.
  using At = std::function<void(net::Clock::time_point, std::function<void()>)>;

  MetadataService(Metadata& metadata, At at) : metadata_(metadata), at_(std::move(at)) {}

  /// Answers the call, now or, if it waits for a lock, later.  \returns false if it is not for this service
  bool handle(const CallPtr& call);
  /// Locks of the peer are free again, and counters that only it held are gone.
  void drop(net::PeerId peer) {
    locks_.drop(peer);
    counters_.drop(peer);
  }
  /// Nobody waits for a lock any more.
  void stop();

 private:
  void lock(const CallPtr& call, const wire::LockT& request);
  void unlock(const CallPtr& call, const wire::UnlockT& request);

  Metadata& metadata_;
  At at_;
  Locks locks_;
  CounterTable counters_;
};

}  // namespace weir::server::internal
