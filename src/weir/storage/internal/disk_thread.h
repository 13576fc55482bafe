#pragma once

// The thread of a disk store: takes batches from the owner, keeps many operations in flight as coroutines on one ring,
// and hands completed batches back.
//
//   owner's thread    submit() ──> inbox_          done_ ──(Loop)──> completions
//   I/O thread                      └──> order_ ──> work ──> ring ──┘

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <weir/base/task.h>
#include <weir/runtime/runtime.h>
#include <weir/storage/internal/disk_io.h>
#include <weir/storage/internal/operation_order.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

/// What the thread works with.  All of it is called by the I/O thread.
class DiskWork {
 public:
  virtual ~DiskWork() = default;
  virtual DiskIo& io() = 0;
  virtual Task<Status> run(op::Any& operation) = 0;
  /// Whether make_room() should be called, which then has the store to itself.
  [[nodiscard]] virtual bool needs_room() const = 0;
  virtual Task<Status> make_room() = 0;
  /// Makes all durable, at the end.
  virtual Task<Status> close() = 0;
};

/// \threadsafety One thread: the owner's.
class DiskThread {
 public:
  /// `depth`: operations in flight together.
  DiskThread(DiskWork& work, std::size_t depth);
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;
  ~DiskThread() { stop(); }

  /// \error kIoError if the system has no thread to give
  Status start(runtime::Executor& executor);
  // As those of Store.
  void submit(IoBatch batch, Completion done);
  void stop();
  Loop* deliver_to(Loop* loop);

 private:
  using Entry = OperationOrder::Entry;

  void deliver();
  // I/O thread.
  void run();
  void take_inbox();
  void begin_some();
  void begin(Entry* entry);
  void finish(Entry* entry, Status status);
  void make_room();
  void hand_back(BatchPtr batch);

  DiskWork& work_;
  const std::size_t depth_;

  // I/O thread.
  OperationOrder order_;
  std::size_t in_flight_ = 0;
  bool is_making_room_ = false;
  bool has_made_room_ = false;

  std::mutex mutex_;
  std::vector<BatchPtr> inbox_;
  std::vector<BatchPtr> done_;
  Loop* loop_ = nullptr;
  bool is_stopping_ = false;

  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);  // for the loop's tasks that come too late
  std::unique_ptr<runtime::Thread> thread_;                        // last: it uses the others
};

}  // namespace weir::storage::internal
