#include <weir/client/internal/windowed_operation.h>

#include <algorithm>
#include <utility>

#include <weir/client/internal/bound_view.h>

namespace weir::client::internal {

namespace {

// Enough that a window is gathered or scattered while others travel.
constexpr std::size_t kMostWindows = 4;

}  // namespace

WindowedOperation::WindowedOperation(std::shared_ptr<BoundView> view, const ViewAccess& access, transfer::Route route,
                                     Offset window_bytes)
    : view_(std::move(view)), access_(access), route_(std::move(route)), window_bytes_(window_bytes) {}

WindowedOperation::~WindowedOperation() { (void)wait(); }

void WindowedOperation::start_windows() {
  while (status_.is_ok() && next_ < access_.bytes && windows_.size() < kMostWindows) {
    start_window();
    while (!windows_.empty() && windows_.front().operation->is_done()) end_first();
  }
}

void WindowedOperation::start_window() {
  const Range range{next_, std::min(next_ + window_bytes_, access_.bytes)};
  const Offset length = range.to - range.from;
  next_ = range.to;
  Window window{range, view_->take_buffer(), nullptr};
  if (access_.is_write) {
    route_.pack_b({access_.data, 0}, range, window.buffer.data());
    Counters::add(view_->counters().gathered_bytes, length);
  }
  const Offset ahead = access_.is_write ? access_.bytes - range.to : 0;
  window.operation =
      view_->start_part({access_.is_write, access_.from + range.from, length, window.buffer.data(), ahead});
  if (watcher_ != nullptr) window.operation->set_watcher(*watcher_);
  windows_.push_back(std::move(window));
}

void WindowedOperation::end_first() {
  const Window window = std::move(windows_.front());
  windows_.pop_front();
  Status ended = window.operation->wait();
  if (!ended.is_ok()) {
    if (status_.is_ok()) status_ = std::move(ended);
    return;
  }
  if (access_.is_write || !status_.is_ok()) return;
  route_.unpack_b(window.buffer.data(), window.range, {access_.data, 0});
  Counters::add(view_->counters().gathered_bytes, window.range.to - window.range.from);
}

Session* WindowedOperation::session() const { return &view_->session(); }

void WindowedOperation::set_watcher(Watcher& watcher) {
  watcher_ = &watcher;
  for (const Window& window : windows_) window.operation->set_watcher(watcher);
}

bool WindowedOperation::test() {
  for (const Window& window : windows_) window.operation->test();
  while (!windows_.empty() && windows_.front().operation->is_done()) end_first();
  start_windows();
  return windows_.empty();
}

Status WindowedOperation::wait() {
  while (!windows_.empty()) {
    end_first();
    start_windows();
  }
  return status_;
}

}  // namespace weir::client::internal
