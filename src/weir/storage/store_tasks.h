#pragma once

// Operations of a store, for coroutines on the thread of its owner.
//
//   WEIR_CO_TRY(const SubfileInfo info, co_await ask(store, op::Info{id}));

#include <coroutine>
#include <memory>
#include <utility>

#include <weir/base/task.h>
#include <weir/storage/store.h>

namespace weir::storage {

using IsWanted = std::shared_ptr<const std::atomic<bool>>;

/// What `co_await` gives is the completed batch.
class Submitted {
 public:
  Submitted(Store& store, IoBatch batch) : store_(store), batch_(std::move(batch)) {}
  Submitted(const Submitted&) = delete;
  Submitted& operator=(const Submitted&) = delete;

  bool await_ready() {
    store_.submit(std::move(batch_), [this](IoBatch done) {
      batch_ = std::move(done);
      is_done_ = true;
      if (waiting_) waiting_.resume();
    });
    return is_done_;
  }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { waiting_ = waiting; }
  IoBatch await_resume() { return std::move(batch_); }

 private:
  Store& store_;
  IoBatch batch_;
  bool is_done_ = false;
  std::coroutine_handle<> waiting_;
};

inline Task<Status> run(Store& store, op::Any operation, IsWanted is_wanted = {}) {
  IoBatch batch;
  batch.operations.push_back({std::move(operation)});
  batch.is_wanted = std::move(is_wanted);
  Submitted submitted(store, std::move(batch));
  const IoBatch done = co_await submitted;
  co_return done.status();
}

/// The result of an operation that has one.
template <typename Ask>
Task<Result<decltype(Ask::result)>> ask(Store& store, Ask operation, IsWanted is_wanted = {}) {
  IoBatch batch;
  batch.operations.push_back({std::move(operation)});
  batch.is_wanted = std::move(is_wanted);
  Submitted submitted(store, std::move(batch));
  IoBatch done = co_await submitted;
  Status status = done.status();
  if (!status.is_ok()) co_return status;
  co_return std::move(std::get<Ask>(done.operations[0].what).result);
}

}  // namespace weir::storage
