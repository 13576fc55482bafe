#pragma once

// What decorators have in common that pass operations on to another store when their time has come: conflicting
// operations stay in order, others may overtake, and all are done on the thread of the owner.

#include <cstdint>
#include <map>
#include <memory>

#include <weir/storage/internal/operation_order.h>
#include <weir/storage/store.h>

namespace weir::storage::internal {

class DelayedStore : public Store {
 public:
  DelayedStore(std::shared_ptr<Store> store, const runtime::Clock& clock) : store_(std::move(store)), clock_(clock) {}

  void submit(IoBatch batch, Completion done) override;
  /// Waits for what the store behind it has begun, and leaves that running: others may use it.
  void stop() override;
  Loop* deliver_to(Loop* loop) override;
  [[nodiscard]] Capabilities capabilities() const override { return store_->capabilities(); }
  [[nodiscard]] std::uint64_t id() const override { return store_->id(); }
  [[nodiscard]] Label label() const override { return store_->label(); }

 protected:
  /// When an operation that begins now is to be passed on.
  virtual runtime::TimePoint due(const Operation& operation, runtime::TimePoint now) = 0;
  /// Whether another may begin while `waiting` have begun and are not due yet.
  [[nodiscard]] virtual bool may_begin(std::size_t waiting) const = 0;
  /// The error that an operation is to fail with: instead of it, or once it is done.
  struct Failure {
    Status status;
    bool is_before = true;
  };
  virtual Failure failure(const Operation& operation) {
    (void)operation;
    return {};
  }

  [[nodiscard]] Store& inner() const noexcept { return *store_; }

 private:
  using Entry = OperationOrder::Entry;
  struct Delayed {
    Entry* entry;
    runtime::TimePoint due;
  };

  void begin_some();
  void arm(std::uint64_t number, runtime::TimePoint time);
  void pass_on(Entry* entry);
  void finish(Entry* entry, Status status);

  std::shared_ptr<Store> store_;
  const runtime::Clock& clock_;
  Loop* loop_ = nullptr;
  OperationOrder order_;
  std::map<std::uint64_t, Delayed> delayed_;  // begun, not due yet; by number
  bool is_beginning_ = false;                 // begin_some() is at work further up the stack
  bool is_stopped_ = false;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);  // for timers that come too late
};

}  // namespace weir::storage::internal
