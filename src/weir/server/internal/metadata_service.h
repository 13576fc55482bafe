#pragma once

// The metadata service on the wire: Metadata, Locks and CounterTable behind requests.
//
// Changes are answered when they are durable: what a caller was told stays so.  If a change has taken subfiles from a
// file, Removals then removes them; the answer waits for that, but not for servers that are down.  Requests that come meanwhile wait for the disk together, and it is not the event loop that
// waits.  Only Create is answered at once: its caller asks for SyncNames when it syncs the file.

#include <functional>

#include <weir/server/internal/access.h>
#include <weir/server/internal/call.h>
#include <weir/server/internal/counter_table.h>
#include <weir/server/internal/locks.h>
#include <weir/server/internal/metadata.h>
#include <weir/server/internal/removals.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time: that of the event loop.
class MetadataService {
 public:
  /// Calls a task at a time, on the thread of the event loop.
  using At = std::function<void(net::Clock::time_point, std::function<void()>)>;

  /// Runs a task on the thread of the event loop; safe from any thread.
  using Post = std::function<void(std::function<void()>)>;

  /// `most_locks`: of one client.
  MetadataService(Metadata& metadata, Removals& removals, const AccessControl& access, const runtime::Clock& clock,
                  At at, Post post, std::size_t most_locks = Locks::kMostLocks)
      : metadata_(metadata),
        removals_(removals),
        access_(access),
        clock_(clock),
        at_(std::move(at)),
        post_(std::move(post)),
        locks_(most_locks) {}

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
  /// Removes subfiles, then calls `answer`; soon, even if a server does not answer.
  void remove_subfiles(const CallPtr& call, std::vector<wire::AttributesT> removals, std::function<void()> answer);
  /// The same attributes, and if they are a file's, a capability for the caller.
  Result<wire::AttributesT> with_capability(const ServerCall& call, Result<wire::AttributesT> attributes) const;
  Result<wire::AttributesT> lookup(const ServerCall& call, const wire::LookupT& request);
  /// Of a file that the caller has open, by its number.
  Result<wire::AttributesT> lookup_open(const ServerCall& call, const wire::LookupT& request);
  Result<wire::AttributesT> begin_relayout(const ServerCall& call, const wire::BeginRelayoutT& request);
  void handle_repair(const CallPtr& call);
  [[nodiscard]] Status may_lock(const ServerCall& call, const wire::LockT& request) const;
  void lock(const CallPtr& call, const wire::LockT& request);
  void unlock(const CallPtr& call, const wire::UnlockT& request);

  Metadata& metadata_;
  Removals& removals_;
  const AccessControl& access_;
  const runtime::Clock& clock_;
  At at_;
  Post post_;
  Locks locks_;
  CounterTable counters_;
};

}  // namespace weir::server::internal
