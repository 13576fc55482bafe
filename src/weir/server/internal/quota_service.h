#pragma once

// Quotas on the wire, at server 0: limits for people, leases for servers.  docs/decisions/021-quotas.md
//
//   round   MeterSpace to all servers: they say what they hold, and give back what they do not need.  Before the answer
//           to somebody who wants to know, when a lease would be refused although others hold more than they need, and
//           after a start.  Servers that are down are told again and again, until they know.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <weir/server/internal/access.h>
#include <weir/server/internal/call.h>
#include <weir/server/internal/metadata.h>
#include <weir/server/internal/peers.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time: that of the event loop.
class QuotaService {
 public:
  /// Runs a task in the event loop after a time.
  using After = std::function<void(std::chrono::milliseconds, std::function<void()>)>;
  using Post = std::function<void(std::function<void()>)>;

  QuotaService(Metadata& metadata, const AccessControl& access, Peers& peers, After after, Post post)
      : metadata_(metadata),
        quotas_(metadata.quotas()),
        access_(access),
        peers_(peers),
        after_(std::move(after)),
        post_(std::move(post)) {}

  /// Answers the call, now or later.  \returns false if it is not for this service
  bool handle(const CallPtr& call);
  /// Servers are others now, or this one has started.
  void begin();
  void stop();

 private:
  using Done = std::function<void()>;
  struct Round;
  struct LeaseCall;

  void set(const CallPtr& call, const wire::SetQuotaT& request);
  void get(const CallPtr& call, const wire::GetQuotasT& request);
  void lease(const CallPtr& call);
  /// Servers that can be asked hold more than they need, maybe.
  [[nodiscard]] bool others_have_slack() const;
  void answer_leases(const std::shared_ptr<LeaseCall>& lease);
  [[nodiscard]] wire::QuotasT answer_for(const net::Identity& who, bool all) const;
  void add_quota(wire::QuotasT& answer, UserId user) const;

  /// Tells all servers whether anything is counted, and hears all that they hold.  `done` once each has answered or
  /// failed.
  void tell_all(Done done);
  /// Servers give back what they do not need.
  void reclaim(Done done);
  void ask(std::uint32_t server, wire::MeterSpaceT request, const std::shared_ptr<Round>& round);
  void tell_again();
  void note_held(std::uint32_t server, std::uint64_t boot, const std::vector<wire::HeldSpace>& held);

  Metadata& metadata_;
  Quotas& quotas_;
  const AccessControl& access_;
  Peers& peers_;
  After after_;
  Post post_;
  std::set<std::uint32_t> untold_;  // servers that did not answer
  bool is_telling_again_ = false;   // a task is due
  int beginnings_ = 0;              // not 0: what servers hold is not known yet
  std::vector<CallPtr> early_;      // LeaseSpace meanwhile
  bool is_stopped_ = false;
};

}  // namespace weir::server::internal
