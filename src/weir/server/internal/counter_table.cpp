#include <weir/server/internal/counter_table.h>

#include <iterator>

#include <weir/base/checked.h>
#include <weir/base/random_id.h>
#include <weir/base/text.h>
#include <weir/storage/store.h>

namespace weir::server::internal {

namespace {

/// What the action makes of the value.
Result<Offset> changed(Offset value, const wire::UseCounterT& request) {
  switch (request.action) {
    case wire::CounterAction::Add: return checked_add(value, request.value);
    case wire::CounterAction::Make:
    case wire::CounterAction::Set: return checked_add(0, request.value);
    default: return value;
  }
}

}  // namespace

CounterTable::CounterTable() : random_(random_id) {}

CounterTable::Counters::iterator CounterTable::make() {
  for (;;) {
    const std::uint64_t number = random_();
    if (number == 0) continue;  // 0 is no counter's
    const auto [counter, is_new] = counters_.try_emplace(number);
    if (is_new) return counter;
  }
}

Status CounterTable::hold(Counter& counter, Holder holder) {
  if (counter.holders.contains(holder)) return Status::ok();
  if (holders_ == kMostHolders)
    return {ErrorCode::kNoSpace, concat("counters: they are held ", kMostHolders, " times, and no more are possible")};
  counter.holders.insert(holder);
  ++holders_;
  return Status::ok();
}

CounterTable::Counters::iterator CounterTable::remove(Counters::iterator counter) {
  holders_ -= counter->second.holders.size();
  return counters_.erase(counter);
}

Result<wire::CounterValueT> CounterTable::use(net::PeerId peer, const wire::UseCounterT& request) {
  const bool is_new = request.action == wire::CounterAction::Make;
  const auto found = is_new ? make() : counters_.find(request.counter);
  if (found == counters_.end())
    return Status(ErrorCode::kNotFound, concat("counter ", request.counter,
                                               " is not there: it was removed, or server 0 was started again since"));
  Counter& counter = found->second;
  wire::CounterValueT before;
  before.counter = found->first;
  before.value = counter.value;
  const Holder holder{peer, request.holder};
  switch (request.action) {
    case wire::CounterAction::Remove: remove(found); return before;
    case wire::CounterAction::Leave:
      holders_ -= counter.holders.erase(holder);
      if (counter.holders.empty()) remove(found);
      return before;
    default: break;
  }
  const Result<Offset> value = changed(counter.value, request);
  Status status = value.is_ok() ? hold(counter, holder) : value.status();
  if (!status.is_ok()) {
    if (is_new) remove(found);
    return status;
  }
  counter.value = *value;
  return before;
}

void CounterTable::drop(net::PeerId peer) {
  for (auto counter = counters_.begin(); counter != counters_.end();) {
    std::set<Holder>& holders = counter->second.holders;
    holders_ -= std::erase_if(holders, [&](const Holder& holder) { return holder.peer == peer; });
    counter = holders.empty() ? remove(counter) : std::next(counter);
  }
}

}  // namespace weir::server::internal
