#pragma once

// A read or write between memory in pieces and a view, under way: cut into windows, each of which goes through a buffer
// of the session.
//
//   write   a window is gathered into its buffer when its turn comes, and sent from there
//   read    it is received into its buffer, and scattered from there when it is the first of those under way
//
// A few windows are under way at once, so buffers stay bounded however long the access is.  Windows that need no
// message are done at once.

#include <deque>
#include <memory>

#include <weir/client/internal/operation.h>
#include <weir/transfer/route.h>

namespace weir::client::internal {

/// \threadsafety One thread at a time.
class WindowedOperation final : public UnderWay {
 public:
  /// `access.data` is where offset 0 of the memory's layout lies; `route` is of that layout.
  WindowedOperation(std::shared_ptr<BoundView> view, const ViewAccess& access, transfer::Route route,
                    Offset window_bytes);
  ~WindowedOperation() override;  ///< Waits.
  WindowedOperation(const WindowedOperation&) = delete;
  WindowedOperation& operator=(const WindowedOperation&) = delete;

  void start() { start_windows(); }
  bool test() override;
  Status wait() override;
  [[nodiscard]] Session* session() const override;
  void set_watcher(Watcher& watcher) override;

 private:
  struct Window {
    Range range;  // of the access, from 0 on
    BufferPool::Buffer buffer;
    std::shared_ptr<Operation> operation;  // ends before its buffer
  };

  void start_windows();
  void start_window();
  void end_first();

  std::shared_ptr<BoundView> view_;
  ViewAccess access_;
  transfer::Route route_;
  Offset window_bytes_;
  Offset next_ = 0;  // byte of the access that the next window starts with
  std::deque<Window> windows_;
  Watcher* watcher_ = nullptr;
  Status status_;
};

}  // namespace weir::client::internal
