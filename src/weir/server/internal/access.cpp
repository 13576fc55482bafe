#include <weir/server/internal/access.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <weir/base/text.h>
#include <weir/log/log.h>

namespace weir::server::internal {

namespace {

std::string_view name_of_rights(std::uint32_t rights) {
  if ((rights & kOwns) != 0) return "describe";
  if ((rights & kMayWrite) != 0) return (rights & kMayRead) != 0 ? "read and write" : "write";
  return (rights & kMayRead) != 0 ? "read" : "look at";
}

}  // namespace

// ---------------------------------------------------------------- given

void AccessControl::give(wire::AttributesT& attributes, std::uint32_t uid, std::uint64_t source) const {
  const auto lifetime = std::chrono::duration_cast<std::chrono::nanoseconds>(kCapabilityLifetime);
  attributes.capability = options_.key.seal({.rights = attributes.rights,
                                             .uid = uid,
                                             .file = attributes.file,
                                             .data = attributes.data,
                                             .source = source,
                                             .expires_ns = options_.clock->wall_ns() + lifetime.count()});
}

std::optional<Capability> AccessControl::open(const net::Identity& who, std::span<const std::uint8_t> bytes) const {
  std::optional<Capability> capability = options_.key.open(bytes);
  // Identities may differ between hosts; who administers the file system loses nothing by a capability that is another's.
  if (capability && capability->uid != who.uid && !is_administrator(who)) capability.reset();
  return capability;
}

// ---------------------------------------------------------------- presented

Status AccessControl::present(const ServerCall& call, std::span<const std::uint8_t> bytes) {
  const net::Identity& who = call.request.identity();
  const std::optional<Capability> capability = open(who, bytes);
  Presented& presented = peers_[call.request.peer()];
  if (!capability) {
    // Once for each connection: a log is not a place for strangers to fill.
    if (!std::exchange(presented.is_reported, true))
      WEIR_LOG_WARN("user {} on {} presented a capability that is not good", who.uid, who.host);
    return {ErrorCode::kPermission, concat("the capability is damaged, another user's or another file system's: user ",
                                           who.uid, " must open the file by its path")};
  }
  const auto [at, is_new] = presented.grants.try_emplace(capability->data);
  Grant& grant = at->second;
  const std::int64_t now = options_.clock->wall_ns();
  // Files that are open twice: what either of them may do, as far as it has not expired.
  const bool is_added = !is_new && grant.expires_ns > now;
  if (is_added && capability->expires_ns <= now) return Status::ok();
  grant.rights = static_cast<std::uint8_t>(capability->rights | (is_added ? grant.rights : 0));
  grant.source = capability->source != 0 || !is_added ? capability->source : grant.source;
  grant.expires_ns = is_added ? std::max(grant.expires_ns, capability->expires_ns) : capability->expires_ns;
  if (!is_new) return Status::ok();
  presented.order.push_back(capability->data);
  if (presented.order.size() <= kMostPresented) return Status::ok();
  presented.grants.erase(presented.order.front());
  presented.order.pop_front();
  presented.has_forgotten = true;
  return Status::ok();
}

const AccessControl::Presented* AccessControl::presented_by(net::PeerId peer) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : &found->second;
}

const AccessControl::Grant* AccessControl::grant(const ServerCall& call, std::uint64_t data) const {
  const Presented* presented = presented_by(call.request.peer());
  if (presented == nullptr) return nullptr;
  const auto found = presented->grants.find(data);
  return found == presented->grants.end() ? nullptr : &found->second;
}

// ---------------------------------------------------------------- checked

Status AccessControl::refusal(const ServerCall& call, std::uint64_t data, std::uint32_t rights) const {
  const Presented* presented = presented_by(call.request.peer());
  const bool may_be_forgotten = presented != nullptr && presented->has_forgotten;
  return {may_be_forgotten ? ErrorCode::kStale : ErrorCode::kPermission,
          concat("user ", call.request.identity().uid, " may not ", name_of_rights(rights), " the bytes of data ", data,
                 ": no capability for it was presented on this connection; open the file by its path")};
}

Status AccessControl::check_grant(const Grant& grant, const ServerCall& call, std::uint64_t data,
                                  std::uint32_t rights) const {
  if (grant.expires_ns <= options_.clock->wall_ns()) {
    return {ErrorCode::kStale, concat("the capability for data ", data, " has expired: look the file up again")};
  }
  if ((rights & ~std::uint32_t{grant.rights}) == 0) return Status::ok();
  return {ErrorCode::kPermission,
          concat("user ", call.request.identity().uid, " may not ",
                 name_of_rights(rights & ~std::uint32_t{grant.rights}), " the bytes of data ", data,
                 ": the file was opened without that right; its owner can change the mode, then open it again")};
}

Status AccessControl::check(const ServerCall& call, std::uint64_t data, std::uint32_t rights) const {
  if (const Grant* presented = grant(call, data)) return check_grant(*presented, call, data, rights);
  if (call.request.identity().is_server || is_superuser(call.request.identity())) return Status::ok();
  return refusal(call, data, rights);
}

Status AccessControl::check_repair(const ServerCall& call, std::uint64_t data, std::uint32_t rights) const {
  if (const Grant* presented = grant(call, data)) return check_grant(*presented, call, data, rights);
  if (call.request.identity().is_server || is_administrator(call.request.identity())) return Status::ok();
  return refusal(call, data, rights);
}

Status AccessControl::check_pull(const ServerCall& call, std::uint64_t data, std::uint64_t source) const {
  WEIR_RETURN_IF_ERROR(check(call, data, kMayWrite));
  const Grant* presented = grant(call, data);
  if (presented == nullptr || presented->source == source) return Status::ok();
  return {ErrorCode::kPermission,
          concat("user ", call.request.identity().uid, " may not have data ", data, " pulled from data ", source,
                 ": no relayout from the one to the other was begun by the capability presented")};
}

Status AccessControl::check_administrator(const ServerCall& call, std::string_view what) const {
  const net::Identity& who = call.request.identity();
  if (call.request.identity().is_server || is_administrator(who)) return Status::ok();
  return {ErrorCode::kPermission, concat("user ", who.uid, " may not ", what, ": user ", options_.uid,
                                         ", whom the servers run as, or root can")};
}

}  // namespace weir::server::internal
