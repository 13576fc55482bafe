#pragma once

// The metadata service on the wire: Metadata, Locks and CounterTable behind requests.
//
// Changes are answered when they are durable: what a caller was told stays so, and it may delete the data of what it
// removed or replaced.  Requests that come meanwhile wait for the disk together, and it is not the event loop that
// waits.  Only Create is answered at once: its caller asks for SyncNames when it syncs the file.

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

  /// Runs a task on the thread of the event loop; safe from any thread.
  using Post = std::function<void(std::function<void()>)>;

  MetadataService(Metadata& metadata, At at, Post post)
      : metadata_(metadata), at_(std::move(at)), post_(std::move(post)) {}

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
  /// Answers when what was changed, and all before it, survives a crash of the machine.
  template <typename Table>
  void answer_durable(const CallPtr& call, Result<Table> result);
  void lock(const CallPtr& call, const wire::LockT& request);
  void unlock(const CallPtr& call, const wire::UnlockT& request);

  Metadata& metadata_;
  At at_;
  Post post_;
  Locks locks_;
  CounterTable counters_;
};

}  // namespace weir::server::internal
