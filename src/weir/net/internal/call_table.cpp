#include <weir/net/internal/call_table.h>

#include <algorithm>

namespace weir::net::internal {

CallId CallTable::add(const void* owner, Call call) {
  const CallId id = next_++;
  Pending pending;
  pending.owner = owner;
  pending.next_look = call.deadline - call.patience / 2;
  pending.call = std::move(call);
  looks_.emplace(pending.next_look, id);
  calls_.emplace(id, std::move(pending));
  return id;
}

CallTable::Pending* CallTable::find(CallId id) {
  const auto found = calls_.find(id);
  return found == calls_.end() ? nullptr : &found->second;
}

void CallTable::finish(CallId id, Result<Reply> result) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  looks_.erase({found->second.next_look, id});
  ready_.push_back({found->second.owner, std::move(found->second.call.done), std::move(result)});
  calls_.erase(found);
}

void CallTable::refuse(const void* owner, Call call, Status why) {
  ready_.push_back({owner, std::move(call.done), std::move(why)});
}

std::vector<CallId> CallTable::due(Deadline now) const {
  std::vector<CallId> ids;
  for (auto it = looks_.begin(); it != looks_.end() && it->first <= now; ++it) ids.push_back(it->second);
  return ids;
}

CallTable::Look CallTable::look_at(CallId id, Deadline now) {
  Pending& pending = calls_.at(id);
  const bool has_sign = std::exchange(pending.has_sign, false);
  if (pending.call.patience == Clock::duration::zero() || (pending.is_asked && !has_sign)) return Look::kExpired;
  pending.is_asked = !has_sign;
  looks_.erase({pending.next_look, id});
  pending.next_look = now + pending.call.patience / 2;
  looks_.emplace(pending.next_look, id);
  return has_sign ? Look::kWait : Look::kAsk;
}

std::vector<CallId> CallTable::calls_of(const void* owner) const {
  std::vector<CallId> ids;
  for (const auto& entry : calls_) {
    if (entry.second.owner == owner) ids.push_back(entry.first);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

Deadline CallTable::next_look() const { return looks_.empty() ? Deadline::max() : looks_.begin()->first; }

void CallTable::run_ready() {
  // Only entries that are ready now: a `done` that starts another call must not keep this loop running forever.
  for (std::size_t count = ready_.size(); count > 0 && !ready_.empty(); --count) {
    Ready ready = std::move(ready_.front());
    ready_.pop_front();
    ready.done(std::move(ready.result));
  }
}

void CallTable::run_ready_of(const void* owner) {
  while (true) {
    const auto found = std::find_if(ready_.begin(), ready_.end(), [&](const Ready& it) { return it.owner == owner; });
    if (found == ready_.end()) return;
    Ready ready = std::move(*found);
    ready_.erase(found);
    ready.done(std::move(ready.result));
  }
}

}  // namespace weir::net::internal
