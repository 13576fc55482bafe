#include <weir/server/internal/metadata_service.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include <weir/base/text.h>
#include <weir/server/internal/permission.h>

namespace weir::server::internal {

namespace {

Result<layout::Range> to_range(const wire::Range* range) {
  if (range == nullptr || range->from() < 0 || range->from() >= range->to() || range->to() > kMaxBytes) {
    return invalid_argument("lock: the range must be some bytes in [0, 2^62)");
  }
  return layout::Range{range->from(), range->to()};
}

// The refusal must be there before the caller gives up: then both know that there is no lock.
net::Clock::time_point refuse_at(net::Deadline deadline, net::Clock::time_point now) {
  const auto left = deadline - now;
  return deadline - std::min<net::Clock::duration>(left / 8, std::chrono::milliseconds(100));
}

// How long the answer to a removal waits for the subfiles, so that their space is free when it comes.
constexpr std::chrono::milliseconds kRemovalPatience{1'000};

}  // namespace

bool MetadataService::handle(const CallPtr& call) {
  const wire::OperationUnion& operation = call->head.operation;
  const net::Identity& who = call->request.identity();
  switch (operation.type) {
    case wire::Operation::Lookup: call->answer(lookup(*call, *operation.AsLookup())); return true;
    case wire::Operation::Create:
      call->answer(with_capability(*call, metadata_.create(*operation.AsCreate(), who)));
      return true;
    case wire::Operation::MakeDirectory:
      answer_durable(call, metadata_.make_directory(*operation.AsMakeDirectory(), who));
      return true;
    case wire::Operation::Remove: answer_durable(call, metadata_.remove(*operation.AsRemove(), who)); return true;
    case wire::Operation::Rename: answer_durable(call, metadata_.rename(*operation.AsRename(), who)); return true;
    case wire::Operation::List: call->answer(metadata_.list(*operation.AsList(), who)); return true;
    case wire::Operation::SetAttributes:
      answer_durable(call, with_capability(*call, metadata_.set_attributes(*operation.AsSetAttributes(), who)));
      return true;
    case wire::Operation::BeginRelayout:
      answer_durable(call, begin_relayout(*call, *operation.AsBeginRelayout()));
      return true;
    case wire::Operation::EndRelayout:
      answer_durable(call, metadata_.end_relayout(*operation.AsEndRelayout(), who));
      return true;
    case wire::Operation::SyncNames: answer_durable(call, Result<wire::DoneT>(wire::DoneT{})); return true;
    case wire::Operation::AllFiles:
    case wire::Operation::PendingRemovals:
    case wire::Operation::Adopt: handle_repair(call); return true;
    case wire::Operation::Lock: lock(call, *operation.AsLock()); return true;
    case wire::Operation::Unlock: unlock(call, *operation.AsUnlock()); return true;
    case wire::Operation::UseCounter:
      call->answer(counters_.use(call->request.peer(), *operation.AsUseCounter()));
      return true;
    default: return false;
  }
}

// What fsck asks for: names and subfiles of everybody.
void MetadataService::handle_repair(const CallPtr& call) {
  const wire::OperationUnion& operation = call->head.operation;
  const Status allowed = access_.check_administrator(*call, "list or adopt the files of others");
  if (!allowed.is_ok()) return call->fail(allowed);
  if (const auto* all = operation.AsAllFiles()) return call->answer(metadata_.all_files(*all));
  if (const auto* removals = operation.AsPendingRemovals()) return call->answer(metadata_.pending_removals(*removals));
  answer_durable(call, metadata_.adopt(*operation.AsAdopt(), call->request.identity()));
}

// ---------------------------------------------------------------- capabilities

Result<wire::AttributesT> MetadataService::with_capability(const ServerCall& call,
                                                           Result<wire::AttributesT> attributes) const {
  if (attributes.is_ok() && !attributes->is_directory) access_.give(*attributes, call.request.identity().uid);
  return attributes;
}

Result<wire::AttributesT> MetadataService::lookup(const ServerCall& call, const wire::LookupT& request) {
  if (request.file != 0) return lookup_open(call, request);
  return with_capability(call, metadata_.lookup(request.path, call.request.identity(), request.access));
}

// Its number says nothing of who may search the directories above it: a capability does, or administering all of them.
Result<wire::AttributesT> MetadataService::lookup_open(const ServerCall& call, const wire::LookupT& request) {
  const net::Identity& who = call.request.identity();
  const std::optional<Capability> held = access_.open(who, request.capability);
  const bool is_open = held && held->file == request.file;
  if (!is_open)
    WEIR_RETURN_IF_ERROR(access_.check_administrator(call, concat("look up file ", request.file, " by its number")));
  WEIR_TRY(wire::AttributesT attributes, metadata_.lookup(request.file));
  if (attributes.is_directory) return attributes;
  attributes.rights = is_open ? held->rights : rights_of(attributes, who);
  access_.give(attributes, is_open ? held->uid : who.uid);
  return attributes;
}

// The capability says what the new subfiles may be pulled from.
Result<wire::AttributesT> MetadataService::begin_relayout(const ServerCall& call, const wire::BeginRelayoutT& request) {
  const net::Identity& who = call.request.identity();
  WEIR_TRY(const wire::AttributesT before, metadata_.lookup(request.path, who));
  WEIR_TRY(wire::AttributesT after, metadata_.begin_relayout(request, who));
  access_.give(after, who.uid, before.data);
  return after;
}

template <typename Table>
void MetadataService::answer_durable(const CallPtr& call, Result<Table> result) {
  std::vector<wire::AttributesT> removals = metadata_.take_new_removals();
  if (!result.is_ok()) return call->fail(result.status());
  // Shared and moved on: calls end in the event loop.
  auto answer = std::make_shared<Table>(std::move(result).value());
  metadata_.sync([this, call = call, answer = std::move(answer), removals = std::move(removals),
                  loop = std::this_thread::get_id()](const Status& status) mutable {
    auto task = [this, call = std::move(call), answer = std::move(answer), removals = std::move(removals), status] {
      if (!status.is_ok()) return call->fail(status);
      auto reply = [call, answer] { call->answer(std::move(*answer)); };
      removals.empty() ? reply() : remove_subfiles(call, removals, std::move(reply));
    };
    if (std::this_thread::get_id() == loop) return task();
    post_(std::move(task));
  });
}

void MetadataService::remove_subfiles(const CallPtr& call, std::vector<wire::AttributesT> removals,
                                      std::function<void()> answer) {
  // A writer of a file that was given another layout while it was empty must not meet the old subfiles any more.  Other
  // subfiles have nothing that is missed.
  const bool must_be_gone = call->head.operation.type == wire::Operation::SetAttributes;
  // Emptied by the answer: the call must not live on in the timer.
  auto waiting = std::make_shared<std::function<void(const Status&)>>(
      [call, answer = std::move(answer), must_be_gone](const Status& status) {
        status.is_ok() || !must_be_gone ? answer() : call->fail(status);
      });
  const auto answer_once = [waiting](const Status& status) {
    if (const auto first = std::exchange(*waiting, {})) first(status);
  };
  removals_.add(std::move(removals), answer_once);
  if (must_be_gone || !*waiting) return;
  at_(std::min(clock_.now() + kRemovalPatience, refuse_at(call->deadline, clock_.now())),
      [answer_once] { answer_once(Status::ok()); });
}

Status MetadataService::may_lock(const ServerCall& call, const wire::LockT& request) const {
  const net::Identity& who = call.request.identity();
  const std::optional<Capability> held = access_.open(who, request.capability);
  const std::uint32_t right = request.exclusive ? kMayWrite : kMayRead;
  if (held && held->file == request.file && (held->rights & right) != 0) return Status::ok();
  return metadata_.check_access(request.file, who, request.exclusive);
}

void MetadataService::lock(const CallPtr& call, const wire::LockT& request) {
  const Result<layout::Range> range = to_range(request.range.get());
  if (!range.is_ok()) return call->fail(range.status());
  if (const Status allowed = may_lock(*call, request); !allowed.is_ok()) return call->fail(allowed);
  const Locks::Holder holder{call->request.peer(), request.owner};
  const std::string what = concat("lock of bytes [", range->from, ", ", range->to, ") of file ", request.file);
  if (!request.wait && !locks_.is_free(request.file, *range, request.exclusive, holder)) {
    return call->fail({ErrorCode::kTimedOut, concat(what, ": another holds it, and the request was not to wait")});
  }
  const Locks::Ticket ticket = locks_.lock(request.file, *range, request.exclusive, holder,
                                           [call](const Status& status) { call->answer(status); });
  if (ticket == 0) return;
  at_(refuse_at(call->deadline, clock_.now()), [this, ticket, what] {
    locks_.cancel(ticket, {ErrorCode::kTimedOut, concat(what, ": others did not release it in time")});
  });
}

void MetadataService::unlock(const CallPtr& call, const wire::UnlockT& request) {
  const Result<layout::Range> range = to_range(request.range.get());
  if (!range.is_ok()) return call->fail(range.status());
  locks_.unlock(request.file, *range, {call->request.peer(), request.owner});
  call->answer(wire::DoneT{});
}

void MetadataService::stop() { locks_.cancel_all({ErrorCode::kUnavailable, "lock: the server stops"}); }

}  // namespace weir::server::internal
