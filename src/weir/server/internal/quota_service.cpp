#include <weir/server/internal/quota_service.h>

#include <algorithm>
#include <map>
#include <optional>

#include <weir/base/text.h>
#include <weir/log/log.h>

namespace weir::server::internal {

namespace {

constexpr std::chrono::milliseconds kTellAgain{2'000};
// What was leased a moment ago is given back only once the answer has come to the server that asked.
constexpr int kMostRounds = 10;
constexpr std::chrono::milliseconds kFirstPause{1};

Result<std::optional<Offset>> to_limit(std::string_view what, std::int64_t limit) {
  if (limit == -1) return std::optional<Offset>{};
  if (limit >= 0 && limit <= kMaxBytes) return std::optional<Offset>(limit);
  return invalid_argument(
      concat("set quota: ", limit, " ", what, ": a limit is a number from 0 to 2^62, or -1 for none"));
}

}  // namespace

/// Questions to servers that belong together.
struct QuotaService::Round {
  std::size_t left = 0;
  Done done;
  void end_one() {
    if (--left == 0) done();
  }
};

struct QuotaService::LeaseCall {
  CallPtr call;
  int rounds = 0;  // in which others were asked to give back
  std::vector<std::optional<Result<Offset>>> results;
};

bool QuotaService::handle(const CallPtr& call) {
  const wire::OperationUnion& operation = call->head.operation;
  switch (operation.type) {
    case wire::Operation::SetQuota: set(call, *operation.AsSetQuota()); return true;
    case wire::Operation::GetQuotas: get(call, *operation.AsGetQuotas()); return true;
    case wire::Operation::LeaseSpace: lease(call); return true;
    default: return false;
  }
}

// ---------------------------------------------------------------- for people

void QuotaService::set(const CallPtr& call, const wire::SetQuotaT& request) {
  if (const Status allowed = access_.check_administrator(*call, "set quotas"); !allowed.is_ok())
    return call->fail(allowed);
  const Result<std::optional<Offset>> bytes = to_limit("bytes", request.bytes);
  const Result<std::optional<Offset>> files = to_limit("files", request.files);
  if (!bytes.is_ok()) return call->fail(bytes.status());
  if (!files.is_ok()) return call->fail(files.status());
  std::optional<QuotaLimits> limits;
  if (!request.clear) {
    limits = quotas_.limits_set_for(request.user).value_or(QuotaLimits{});
    if (request.set_bytes) limits->bytes = *bytes;
    if (request.set_files) limits->files = *files;
  }
  const bool was_active = quotas_.is_active();
  if (const Status status = quotas_.set_limits(request.user, limits); !status.is_ok()) return call->fail(status);
  const bool has_changed = was_active != quotas_.is_active();
  metadata_.sync([this, call, has_changed](const Status& status) {
    post_([this, call, has_changed, status] {
      if (!status.is_ok()) return call->fail(status);
      has_changed ? tell_all([call] { call->answer(wire::DoneT{}); }) : call->answer(wire::DoneT{});
    });
  });
}

void QuotaService::get(const CallPtr& call, const wire::GetQuotasT& request) {
  if (request.all) {
    const Status allowed = access_.check_administrator(*call, "see the quotas of others");
    if (!allowed.is_ok()) return call->fail(allowed);
  }
  const auto answer = [this, call, all = request.all] { call->answer(answer_for(call->request.identity(), all)); };
  quotas_.is_active() ? reclaim(answer) : answer();
}

void QuotaService::add_quota(wire::QuotasT& answer, UserId user) const {
  auto quota = std::make_unique<wire::QuotaT>();
  const QuotaLimits limits = quotas_.limits_of(user);
  const QuotaUse use = quotas_.use_of(user);
  quota->user = user;
  quota->bytes_limit = limits.bytes.value_or(-1);
  quota->files_limit = limits.files.value_or(-1);
  quota->used_bytes = use.bytes;
  quota->used_files = use.files;
  quota->is_own = quotas_.limits_set_for(user).has_value();
  answer.quotas.push_back(std::move(quota));
}

wire::QuotasT QuotaService::answer_for(const net::Identity& who, bool all) const {
  wire::QuotasT answer;
  answer.is_active = quotas_.is_active();
  if (!all) {
    add_quota(answer, who.uid);
    return answer;
  }
  for (const UserId user : quotas_.users()) add_quota(answer, user);
  if (quotas_.limits_set_for(kEverybody)) add_quota(answer, kEverybody);
  return answer;
}

// ---------------------------------------------------------------- for servers

void QuotaService::note_held(std::uint32_t server, std::uint64_t boot, const std::vector<wire::HeldSpace>& held) {
  for (const wire::HeldSpace& one : held) {
    quotas_.note_held(server, {one.data(), one.bytes(), boot, one.sequence()});
    quotas_.forget_slack(server, one.data());
  }
}

void QuotaService::lease(const CallPtr& call) {
  if (!call->request.identity().is_server) {
    return call->fail(
        {ErrorCode::kPermission, concat("user ", call->request.identity().uid, " may not lease space: servers do")});
  }
  if (beginnings_ > 0) return early_.push_back(call);
  const wire::LeaseSpaceT& request = *call->head.operation.AsLeaseSpace();
  note_held(request.server, request.boot, request.held);
  if (request.is_complete) quotas_.forget_earlier(request.server, request.boot);
  auto lease = std::make_shared<LeaseCall>();
  lease->call = call;
  lease->results.resize(request.asks.size());
  answer_leases(lease);
}

bool QuotaService::others_have_slack() const {
  const auto slack = quotas_.slack_of({});
  return std::any_of(slack.begin(), slack.end(), [this](const auto& one) { return !untold_.contains(one.first); });
}

// What is refused is tried again once all that servers do not need was given back.
void QuotaService::answer_leases(const std::shared_ptr<LeaseCall>& lease) {
  const wire::LeaseSpaceT& request = *lease->call->head.operation.AsLeaseSpace();
  bool is_refused = false;
  for (std::size_t i = 0; i < request.asks.size(); ++i) {
    const wire::SpaceAsk& ask = request.asks[i];
    std::optional<Result<Offset>>& result = lease->results[i];
    if (result && result->is_ok()) continue;
    if (ask.need() < 0 || ask.want() < ask.need() || ask.want() > kMaxBytes) {
      result = invalid_argument(concat("lease space: ", ask.need(), " to ", ask.want(), " bytes"));
      continue;
    }
    result = quotas_.lease(request.server, ask.data(), ask.need(), ask.want());
    is_refused = is_refused || result->status().code() == ErrorCode::kQuota;
  }
  if (is_refused && lease->rounds < kMostRounds && others_have_slack()) {
    const std::chrono::milliseconds pause = kFirstPause * (1 << lease->rounds);
    const auto again = [this, lease] { answer_leases(lease); };
    if (lease->rounds++ == 0) return reclaim(again);
    return after_(pause, [this, lease, again] {
      if (is_stopped_) return lease->call->fail({ErrorCode::kUnavailable, "the server is stopping"});
      reclaim(again);
    });
  }
  wire::SpaceLeasesT answer;
  answer.is_metered = quotas_.is_active();
  for (const std::optional<Result<Offset>>& result : lease->results) {
    auto one = std::make_unique<wire::SpaceLeaseT>();
    if (result->is_ok()) {
      one->bytes = **result;
    } else {
      one->failure = std::make_unique<wire::FailureT>();
      one->failure->code = static_cast<std::uint8_t>(result->status().code());
      one->failure->message = result->status().message();
    }
    answer.leases.push_back(std::move(one));
  }
  lease->call->answer(std::move(answer));
}

// ---------------------------------------------------------------- rounds

void QuotaService::stop() {
  is_stopped_ = true;
  for (const CallPtr& call : std::exchange(early_, {})) call->fail({ErrorCode::kUnavailable, "the server is stopping"});
}

void QuotaService::begin() {
  if (!quotas_.is_active()) return;
  ++beginnings_;
  tell_all([this] {
    if (--beginnings_ > 0) return;
    for (const CallPtr& call : std::exchange(early_, {})) lease(call);
  });
}

void QuotaService::tell_all(Done done) {
  const auto round = std::make_shared<Round>(Round{peers_.count(), std::move(done)});
  for (std::uint32_t server = 0; server < peers_.count(); ++server) {
    wire::MeterSpaceT request;
    request.is_metered = quotas_.is_active();
    request.all = request.is_metered;
    ask(server, std::move(request), round);
  }
}

// All servers: one may hold less than it could say so far.
void QuotaService::reclaim(Done done) {
  std::map<std::uint32_t, std::vector<std::uint64_t>> data;
  for (const auto& [server, number] : quotas_.slack_of({})) data[server].push_back(number);
  const auto round = std::make_shared<Round>(Round{peers_.count(), std::move(done)});
  for (std::uint32_t server = 0; server < peers_.count(); ++server) {
    wire::MeterSpaceT request;
    request.is_metered = true;
    request.data = std::move(data[server]);
    ask(server, std::move(request), round);
  }
}

void QuotaService::ask(std::uint32_t server, wire::MeterSpaceT request, const std::shared_ptr<Round>& round) {
  const bool all = request.all;
  peers_.call(server, std::move(request), 0, [this, server, all, round](const Result<wire::ReplyHeadT>& reply) {
    if (is_stopped_) return;
    const wire::HeldSpacesT* held = reply.is_ok() ? reply->answer.AsHeldSpaces() : nullptr;
    if (held == nullptr) {
      untold_.insert(server);
      tell_again();
      return round->end_one();
    }
    note_held(server, held->boot, held->held);
    if (all && !held->is_complete && !held->held.empty()) {
      wire::MeterSpaceT rest;
      rest.is_metered = rest.all = true;
      rest.after = held->held.back().data();
      return ask(server, std::move(rest), round);
    }
    if (all) quotas_.forget_earlier(server, held->boot);
    untold_.erase(server);
    round->end_one();
  });
}

void QuotaService::tell_again() {
  if (is_stopped_ || std::exchange(is_telling_again_, true)) return;
  after_(kTellAgain, [this] {
    is_telling_again_ = false;
    const std::set<std::uint32_t> servers = std::exchange(untold_, {});
    if (is_stopped_ || servers.empty()) return;
    const auto round = std::make_shared<Round>(Round{servers.size(), [] {}});
    for (const std::uint32_t server : servers) {
      wire::MeterSpaceT request;
      request.is_metered = request.all = quotas_.is_active();
      ask(server, std::move(request), round);
    }
  });
}

}  // namespace weir::server::internal
