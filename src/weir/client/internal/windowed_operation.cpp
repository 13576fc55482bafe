#include <weir/client/internal/windowed_operation.h>

#include <algorithm>
#include <utility>

#include <weir/client/internal/bound_view.h>

namespace weir::client::internal {

namespace {

// Enough that a window is gathered or scattered while others travel.
constexpr std::size_t kMostWindows = 4;

}  // namespace

WindowedOperation::WindowedOperation(std::shared_ptr<BoundView> view, const Access& access, transfer::Plan plan,
                                     Offset window_bytes)
    : view_(std::move(view)), access_(access), plan_(std::move(plan)), window_bytes_(window_bytes) {}

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
    plan_.run({access_.data, 0}, {window.buffer.data(), range.from}, range);
    Counters::add(view_->counters().gathered_bytes, length);
  }
  const Offset ahead = access_.is_write ? access_.bytes - range.to : 0;
  window.operation =
      view_->start_part({access_.is_write, access_.from + range.from, length, window.buffer.data(), ahead});
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
  plan_.run({window.buffer.data(), window.range.from}, {access_.data, 0}, window.range);
  Counters::add(view_->counters().gathered_bytes, window.range.to - window.range.from);
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
