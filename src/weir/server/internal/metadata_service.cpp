#include <weir/server/internal/metadata_service.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include <weir/base/text.h>

namespace weir::server::internal {

namespace {

Result<layout::Range> to_range(const wire::Range* range) {
  if (range == nullptr || range->from() < 0 || range->from() >= range->to() || range->to() > kMaxBytes) {
    return invalid_argument("lock: the range must be some bytes in [0, 2^62)");
  }
  return layout::Range{range->from(), range->to()};
}

// The refusal must be there before the caller gives up: then both know that there is no lock.
net::Clock::time_point refuse_at(net::Deadline deadline) {
  const auto left = deadline - net::Clock::now();
  return deadline - std::min<net::Clock::duration>(left / 8, std::chrono::milliseconds(100));
}

}  // namespace

bool MetadataService::handle(const CallPtr& call) {
  const wire::OperationUnion& operation = call->head.operation;
  const net::Identity& who = call->request.identity();
  switch (operation.type) {
    case wire::Operation::Lookup: {
      const wire::LookupT& lookup = *operation.AsLookup();
      call->answer(lookup.file != 0 ? metadata_.lookup(lookup.file) : metadata_.lookup(lookup.path, who));
      return true;
    }
    case wire::Operation::Create: call->answer(metadata_.create(*operation.AsCreate(), who)); return true;
    case wire::Operation::MakeDirectory:
      answer_durable(call, metadata_.make_directory(*operation.AsMakeDirectory(), who));
      return true;
    case wire::Operation::Remove: answer_durable(call, metadata_.remove(*operation.AsRemove(), who)); return true;
    case wire::Operation::Rename: answer_durable(call, metadata_.rename(*operation.AsRename(), who)); return true;
    case wire::Operation::List: call->answer(metadata_.list(*operation.AsList(), who)); return true;
    case wire::Operation::SetAttributes:
      answer_durable(call, metadata_.set_attributes(*operation.AsSetAttributes(), who));
      return true;
    case wire::Operation::BeginRelayout:
      answer_durable(call, metadata_.begin_relayout(*operation.AsBeginRelayout(), who));
      return true;
    case wire::Operation::EndRelayout:
      answer_durable(call, metadata_.end_relayout(*operation.AsEndRelayout(), who));
      return true;
    case wire::Operation::SyncNames: answer_durable(call, Result<wire::DoneT>(wire::DoneT{})); return true;
    case wire::Operation::AllFiles: call->answer(metadata_.all_files(*operation.AsAllFiles(), who)); return true;
    case wire::Operation::Adopt: answer_durable(call, metadata_.adopt(*operation.AsAdopt(), who)); return true;
    case wire::Operation::Lock: lock(call, *operation.AsLock()); return true;
    case wire::Operation::Unlock: unlock(call, *operation.AsUnlock()); return true;
    case wire::Operation::UseCounter:
      call->answer(counters_.use(call->request.peer(), *operation.AsUseCounter()));
      return true;
    default: return false;
  }
}

template <typename Table>
void MetadataService::answer_durable(const CallPtr& call, Result<Table> result) {
  if (!result.is_ok()) return call->fail(result.status());
  // Shared and moved on: calls end in the event loop.
  auto answer = std::make_shared<Table>(std::move(result).value());
  metadata_.sync(
      [this, call = call, answer = std::move(answer), loop = std::this_thread::get_id()](const Status& status) mutable {
        auto task = [call = std::move(call), answer = std::move(answer), status] {
          status.is_ok() ? call->answer(std::move(*answer)) : call->fail(status);
        };
        if (std::this_thread::get_id() == loop) return task();
        post_(std::move(task));
      });
}

void MetadataService::lock(const CallPtr& call, const wire::LockT& request) {
  const Result<layout::Range> range = to_range(request.range.get());
  if (!range.is_ok()) return call->fail(range.status());
  const Status allowed = metadata_.check_access(request.file, call->request.identity(), request.exclusive);
  if (!allowed.is_ok()) return call->fail(allowed);
  const Locks::Holder holder{call->request.peer(), request.owner};
  const std::string what = concat("lock of bytes [", range->from, ", ", range->to, ") of file ", request.file);
  if (!request.wait && !locks_.is_free(request.file, *range, request.exclusive, holder)) {
    return call->fail({ErrorCode::kTimedOut, concat(what, ": another holds it, and the request was not to wait")});
  }
  const Locks::Ticket ticket = locks_.lock(request.file, *range, request.exclusive, holder,
                                           [call](const Status& status) { call->answer(status); });
  if (ticket == 0) return;
  at_(refuse_at(call->deadline), [this, ticket, what] {
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
