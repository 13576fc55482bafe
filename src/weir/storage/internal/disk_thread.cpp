#include <weir/storage/internal/disk_thread.h>

#include <algorithm>
#include <utility>

#include <weir/storage/internal/disk_sums.h>

namespace weir::storage::internal {

// Checksums are of whole blocks, so operations that share a block conflict.
DiskThread::DiskThread(DiskWork& work, std::size_t depth)
    : work_(work), depth_(std::max<std::size_t>(depth, 1)), order_(kBlockBytes) {}

Status DiskThread::start(runtime::Executor& executor) {
  thread_ = executor.start("weir-disk", [this] { run(); });
  if (thread_ != nullptr) return Status::ok();
  return {ErrorCode::kIoError, "disk store: no thread can be started: raise the limit (ulimit -u)"};
}

// ---- the owner's thread

void DiskThread::submit(IoBatch batch, Completion done) {
  if (thread_ == nullptr) return refuse(std::move(batch), done);
  if (batch.operations.empty()) return done(std::move(batch));
  const std::size_t count = batch.operations.size();
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = inbox_.empty();
    inbox_.push_back(std::make_shared<BatchInFlight>(BatchInFlight{std::move(batch), std::move(done), count}));
  }
  if (was_empty) work_.io().wake();
}

void DiskThread::stop() {
  if (thread_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  work_.io().wake();
  thread_.reset();  // waits
  deliver();
}

Loop* DiskThread::deliver_to(Loop* loop) {
  const std::lock_guard lock(mutex_);
  Loop* const before = std::exchange(loop_, loop);
  if (loop != nullptr && !done_.empty()) {
    loop->post([this, is_alive = std::weak_ptr<bool>(is_alive_)] {
      if (!is_alive.expired()) deliver();
    });
  }
  return before;
}

void DiskThread::deliver() {
  std::vector<BatchPtr> completed;
  {
    const std::lock_guard lock(mutex_);
    completed.swap(done_);
  }
  for (const BatchPtr& batch : completed) batch->done(std::move(batch->batch));
}

// ---- the I/O thread

void DiskThread::run() {
  for (;;) {
    take_inbox();
    begin_some();
    {
      const std::lock_guard lock(mutex_);
      if (!inbox_.empty()) continue;
      if (is_stopping_ && order_.size() == 0) break;
    }
    work_.io().wait();
  }
  bool is_closed = false;
  weir::start([this] { return work_.close(); }, [&is_closed](const Status&) { is_closed = true; });
  while (!is_closed) work_.io().wait();
}

void DiskThread::take_inbox() {
  std::vector<BatchPtr> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(inbox_);
  }
  for (const BatchPtr& batch : taken) order_.add(batch);
}

void DiskThread::begin_some() {
  while (order_.is_ready() && in_flight_ < depth_ && !is_making_room_) {
    if (has_made_room_ || !work_.needs_room()) {
      has_made_room_ = false;  // it may need room again: the next one tries
      begin(order_.next());
    } else if (in_flight_ == 0) {
      make_room();
    } else {
      return;  // when those in flight have ended
    }
  }
}

void DiskThread::begin(Entry* entry) {
  bool is_stopping = false;
  {
    const std::lock_guard lock(mutex_);
    is_stopping = is_stopping_;
  }
  const IoBatch& batch = entry->batch->batch;
  const bool is_wanted = batch.is_wanted == nullptr || *batch.is_wanted;
  ++in_flight_;
  if (is_stopping || !is_wanted) return finish(entry, not_begun(entry->operation(), is_stopping));
  weir::start([this, entry] { return work_.run(entry->operation().what); },
              [this, entry](Status status) { finish(entry, std::move(status)); });
}

void DiskThread::finish(Entry* entry, Status status) {
  entry->operation().status = std::move(status);
  --in_flight_;
  if (BatchPtr batch = order_.finish(entry)) hand_back(std::move(batch));
}

void DiskThread::make_room() {
  is_making_room_ = true;
  weir::start([this] { return work_.make_room(); },
              [this](const Status&) {
                is_making_room_ = false;
                has_made_room_ = true;
              });
}

// Moved: what a completion holds must end on the owner's thread.
void DiskThread::hand_back(BatchPtr batch) {
  const std::lock_guard lock(mutex_);
  done_.push_back(std::move(batch));
  if (loop_ == nullptr || done_.size() > 1) return;
  loop_->post([this, is_alive = std::weak_ptr<bool>(is_alive_)] {
    if (!is_alive.expired()) deliver();
  });
}

}  // namespace weir::storage::internal
