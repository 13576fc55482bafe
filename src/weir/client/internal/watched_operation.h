#pragma once

// An operation whose end is told by a callback or a descriptor: the progress thread does what it needs.

#include <functional>
#include <memory>

#include <weir/base/descriptor.h>
#include <weir/client/internal/operation.h>

namespace weir::client::internal {

/// \threadsafety One thread at a time, beside the progress thread.
class WatchedOperation final : public UnderWay {
 public:
  explicit WatchedOperation(std::shared_ptr<UnderWay> operation);
  ~WatchedOperation() override;  ///< Waits.
  WatchedOperation(const WatchedOperation&) = delete;
  WatchedOperation& operator=(const WatchedOperation&) = delete;

  /// From now on, the operation is the progress thread's.
  void start();
  /// At once if it is done.
  void on_done(std::function<void(const Status&)> callback);
  /// Can be read from when it is done.  \error kIoError
  Result<int> descriptor();

  bool test() override;
  Status wait() override;
  [[nodiscard]] Session* session() const override { return session_; }
  void set_watcher(Watcher&) override {}

 private:
  void advance();
  void finish(const Status& status);
  template <typename Work>
  void locked(Work work);

  std::shared_ptr<UnderWay> operation_;
  Session* session_;  // null: it was done from the start
  Watcher watcher_;
  bool is_advancing_ = false;  // the progress thread's
  // With the session locked:
  Signal signal_;
  bool is_done_ = false;
  Status status_;
  std::function<void(const Status&)> callback_;
  Descriptor descriptor_;
};

}  // namespace weir::client::internal
