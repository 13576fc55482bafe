#include <weir/client/internal/watched_operation.h>

#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include <weir/base/os_error.h>

namespace weir::client::internal {

WatchedOperation::WatchedOperation(std::shared_ptr<UnderWay> operation)
    : operation_(std::move(operation)), session_(operation_->session()), watcher_{[this] { advance(); }} {}

WatchedOperation::~WatchedOperation() { (void)wait(); }

template <typename Work>
void WatchedOperation::locked(Work work) {
  if (session_ != nullptr) return session_->locked(work);
  work();
}

void WatchedOperation::start() {
  if (session_ == nullptr) {
    is_done_ = true;
    status_ = operation_->wait();
    return;
  }
  // Without a progress thread, this one does it.
  if (!session_->watch(watcher_)) finish(operation_->wait());
}

void WatchedOperation::advance() {
  // Only now: had an answer queued the watcher before start() does, it would be called once more when it is done.
  if (!std::exchange(is_advancing_, true)) operation_->set_watcher(watcher_);
  if (!operation_->test()) return;
  finish(operation_->wait());  // done, or done again since the layout was stale
}

void WatchedOperation::finish(const Status& status) {
  // A callback that comes meanwhile is called by on_done().
  std::function<void(const Status&)> callback;
  bool is_queued = false;
  locked([&] {
    is_queued = watcher_.is_queued;  // then the next turn ends it: nothing may come after the end
    if (!is_queued) callback = std::exchange(callback_, nullptr);
  });
  if (is_queued) return;
  if (callback) callback(status);
  session_->tell(signal_, [&] {
    session_->unwatch();
    is_done_ = true;
    status_ = status;
    callback = std::exchange(callback_, nullptr);
    const std::uint64_t one = 1;
    if (descriptor_.is_open()) static_cast<void>(!::write(descriptor_.get(), &one, sizeof one));
    return true;
  });
  if (callback) callback(status);
}

void WatchedOperation::on_done(std::function<void(const Status&)> callback) {
  bool is_done = false;
  locked([&] {
    is_done = is_done_;
    if (!is_done) callback_ = std::move(callback);
  });
  if (is_done) callback(status_);
}

Result<int> WatchedOperation::descriptor() {
  Descriptor made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made.is_open()) return os_error(ErrorCode::kIoError, "eventfd");
  int number = -1;
  locked([&] {
    if (!descriptor_.is_open()) {
      descriptor_ = std::move(made);
      const std::uint64_t one = 1;
      if (is_done_) static_cast<void>(!::write(descriptor_.get(), &one, sizeof one));
    }
    number = descriptor_.get();
  });
  return number;
}

bool WatchedOperation::test() {
  bool is_done = false;
  locked([&] { is_done = is_done_; });
  return is_done;
}

Status WatchedOperation::wait() {
  while (!test()) session_->wait(signal_);
  return status_;
}

}  // namespace weir::client::internal
