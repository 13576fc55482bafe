#include <weir/storage/internal/group_commit.h>

#include <algorithm>
#include <utility>

namespace weir::storage::internal {
namespace {

// A client that syncs again and again does not wait for what settles its last sync.
constexpr std::chrono::milliseconds kQuiet{50};
constexpr std::chrono::milliseconds kLongestUnsettled{1000};

}  // namespace

GroupCommit::GroupCommit(Work work) : work_(std::move(work)), thread_([this] { run(); }) {}

GroupCommit::~GroupCommit() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void GroupCommit::ask(Done done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(done));
  }
  changed_.notify_one();
}

std::optional<GroupCommit::Clock::time_point> GroupCommit::settle_at() const {
  if (!first_commit_) return {};
  return std::min(last_commit_ + kQuiet, *first_commit_ + kLongestUnsettled);
}

void GroupCommit::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto is_due = [this] { return is_ending_ || !waiting_.empty(); };
    if (const auto time = settle_at()) {
      changed_.wait_until(lock, *time, is_due);
    } else {
      changed_.wait(lock, is_due);
    }
    if (!waiting_.empty()) commit(lock);
    const auto time = settle_at();
    if (time && (is_ending_ || Clock::now() >= *time)) {
      first_commit_.reset();
      lock.unlock();
      work_.settle();
      lock.lock();
    }
    if (is_ending_ && waiting_.empty() && !first_commit_) return;
  }
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
  last_commit_ = Clock::now();
  if (!first_commit_) first_commit_ = last_commit_;
}

}  // namespace weir::storage::internal
