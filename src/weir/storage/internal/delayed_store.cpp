#include <weir/storage/internal/delayed_store.h>

#include <utility>

#include <weir/storage/internal/waiting_loop.h>

namespace weir::storage::internal {

void DelayedStore::submit(IoBatch batch, Completion done) {
  if (is_stopped_) return refuse(std::move(batch), done);
  if (batch.operations.empty()) return done(std::move(batch));
  const std::size_t count = batch.operations.size();
  order_.add(std::make_shared<BatchInFlight>(BatchInFlight{std::move(batch), std::move(done), count}));
  begin_some();
}

void DelayedStore::begin_some() {
  if (is_beginning_) return;
  is_beginning_ = true;
  while (order_.is_ready() && (is_stopped_ || may_begin(delayed_.size()))) {
    Entry* entry = order_.next();
    const IoBatch& batch = entry->batch->batch;
    const bool is_wanted = batch.is_wanted == nullptr || *batch.is_wanted;
    if (is_stopped_ || !is_wanted) {
      finish(entry, not_begun(entry->operation(), is_stopped_));
      continue;
    }
    const runtime::TimePoint now = clock_.now();
    const runtime::TimePoint time = due(entry->operation(), now);
    if (time <= now) {
      pass_on(entry);
    } else {
      delayed_.emplace(entry->number, Delayed{entry, time});
      arm(entry->number, time);
    }
  }
  is_beginning_ = false;
}

void DelayedStore::arm(std::uint64_t number, runtime::TimePoint time) {
  loop_->at(time, [this, number, is_alive = std::weak_ptr<bool>(is_alive_)] {
    if (is_alive.expired()) return;
    const auto found = delayed_.find(number);
    if (found == delayed_.end()) return;  // another loop was faster
    Entry* entry = found->second.entry;
    delayed_.erase(found);
    pass_on(entry);
    begin_some();
  });
}

void DelayedStore::pass_on(Entry* entry) {
  Operation& operation = entry->operation();
  Failure fails = failure(operation);
  if (!fails.status.is_ok() && fails.is_before) return finish(entry, std::move(fails.status));
  IoBatch one;
  one.operations.push_back(std::move(operation));
  one.priority = entry->priority;
  store_->submit(std::move(one), [this, entry, fails = std::move(fails)](IoBatch done) {
    entry->operation().what = std::move(done.operations[0].what);
    finish(entry, fails.status.is_ok() ? std::move(done.operations[0].status) : fails.status);
  });
}

void DelayedStore::finish(Entry* entry, Status status) {
  entry->operation().status = std::move(status);
  if (const BatchPtr batch = order_.finish(entry)) batch->done(std::move(batch->batch));
  begin_some();
}

void DelayedStore::stop() {
  if (std::exchange(is_stopped_, true)) return;
  for (auto& [number, delayed] : std::exchange(delayed_, {})) {
    finish(delayed.entry, not_begun(delayed.entry->operation(), true));
  }
  begin_some();
  if (order_.size() == 0) return;
  WaitingLoop loop(runtime::system_runtime());
  Loop* const before = store_->deliver_to(&loop);
  loop.run_until([this] { return order_.size() == 0; });
  store_->deliver_to(before);
}

Loop* DelayedStore::deliver_to(Loop* loop) {
  store_->deliver_to(loop);
  Loop* const before = std::exchange(loop_, loop);
  if (loop != nullptr) {
    for (const auto& [number, delayed] : delayed_) arm(number, delayed.due);
  }
  return before;
}

}  // namespace weir::storage::internal
