#pragma once

// A store whose operations never wait: batches complete inside submit().

#include <utility>

#include <weir/storage/internal/operation_order.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

class ImmediateStore : public Store {
 public:
  void submit(IoBatch batch, Completion done) final {
    if (is_stopped_) return refuse(std::move(batch), done);
    for (Operation& operation : batch.operations) {
      const bool is_wanted = batch.is_wanted == nullptr || *batch.is_wanted;
      operation.status = is_wanted ? run(operation.what) : not_begun(operation, false);
    }
    done(std::move(batch));
  }
  void stop() final { is_stopped_ = true; }
  Loop* deliver_to(Loop* loop) final { return std::exchange(loop_, loop); }

 private:
  virtual Status run(op::Any& operation) = 0;

  Loop* loop_ = nullptr;
  bool is_stopped_ = false;
};

}  // namespace weir::storage::internal
