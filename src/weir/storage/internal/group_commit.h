#pragma once

// Group commit: a thread that waits for the disk on behalf of all who asked since it last began to wait.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <weir/base/result.h>
#include <weir/runtime/runtime.h>

namespace weir::storage::internal {

/// \threadsafety Safe from any thread but its own.
class GroupCommit {
 public:
  using Done = std::function<void(const Status&)>;

  struct Work {
    /// Makes durable what was done before it is called.
    std::function<Status()> commit;
    /// Called some time after a commit, when nobody waits: soon if nobody asks any more, and within a second in any
    /// case.
    std::function<void()> settle;
  };

  explicit GroupCommit(Work work, const runtime::Runtime& with = runtime::system_runtime());
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;
  /// Commits what was asked for, settles, then returns.
  ~GroupCommit();

  /// Calls `done` with the result of a commit that begins after this call.  Calls of `done` come in the order of calls
  /// of ask().
  void ask(Done done);

 private:
  void run();
  void wait_for_news(std::unique_lock<std::mutex>& lock);
  void commit(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::optional<runtime::TimePoint> settle_at() const;

  Work work_;
  runtime::Runtime runtime_;
  std::unique_ptr<runtime::Event> news_;
  std::mutex mutex_;
  std::vector<Done> waiting_;
  std::optional<runtime::TimePoint> first_commit_;  // of those not settled
  runtime::TimePoint last_commit_;
  bool is_ending_ = false;
  std::unique_ptr<runtime::Thread> thread_;  // last: it uses the others
};

}  // namespace weir::storage::internal
