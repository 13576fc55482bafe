#include <weir/storage/internal/group_commit.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace weir::storage::internal {
namespace {

// A client that syncs again and again does not wait for what settles its last sync.
constexpr std::chrono::milliseconds kQuiet{50};
constexpr std::chrono::milliseconds kLongestUnsettled{1000};

}  // namespace

GroupCommit::GroupCommit(Work work, const runtime::Runtime& with)
    : work_(std::move(work)),
      runtime_(with),
      news_(with.executor->make_event()),
      thread_(with.executor->start("weir-commit", [this] { run(); })) {}

GroupCommit::~GroupCommit() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  news_->set();
  thread_.reset();  // waits
}

void GroupCommit::ask(Done done) {
  if (thread_ == nullptr) return done({ErrorCode::kIoError, "no thread can be started: raise the limit (ulimit -u)"});
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(done));
  }
  news_->set();
}

std::optional<runtime::TimePoint> GroupCommit::settle_at() const {
  if (!first_commit_) return {};
  return std::min(last_commit_ + kQuiet, *first_commit_ + kLongestUnsettled);
}

void GroupCommit::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!is_ending_ && waiting_.empty()) wait_for_news(lock);
    if (!waiting_.empty()) commit(lock);
    const auto time = settle_at();
    if (time && (is_ending_ || runtime_.clock->now() >= *time)) {
      first_commit_.reset();
      lock.unlock();
      work_.settle();
      lock.lock();
    }
    if (is_ending_ && waiting_.empty() && !first_commit_) return;
  }
}

void GroupCommit::wait_for_news(std::unique_lock<std::mutex>& lock) {
  const runtime::TimePoint deadline = settle_at().value_or(runtime::TimePoint::max());
  lock.unlock();
  (void)news_->wait_until(deadline);
  lock.lock();
}

void GroupCommit::commit(std::unique_lock<std::mutex>& lock) {
  std::vector<Done> served = std::exchange(waiting_, {});
  lock.unlock();
  const Status status = work_.commit();
  for (Done& done : served) {
    done(status);
    done = nullptr;  // what it holds ends before the next one is told
  }
  lock.lock();
  last_commit_ = runtime_.clock->now();
  if (!first_commit_) first_commit_ = last_commit_;
}

}  // namespace weir::storage::internal
