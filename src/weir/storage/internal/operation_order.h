#pragma once

// Which operations may begin, so that conflicting ones take effect in the order of their submission (store.h).
//
//   add()   ──> waits for earlier operations that conflict ──> ready ──next()──> begun ──finish()──> gone
//
// Of those that are ready, demand goes first, then the one that was submitted first.  A demand operation that has to
// wait for background ones makes them demand too.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <weir/storage/store.h>

namespace weir::storage::internal {

/// A batch whose operations are under way one by one.
struct BatchInFlight {
  IoBatch batch;
  Completion done;
  std::size_t left = 0;  ///< Operations that have not completed.
};
using BatchPtr = std::shared_ptr<BatchInFlight>;

/// What an operation reads or changes.
struct Footprint {
  struct Range {
    Offset from = 0;
    Offset to = 0;
  };
  SubfileId id;
  bool is_change = false;
  bool is_whole = false;      ///< All of the subfile, its length too.
  std::vector<Range> ranges;  ///< Otherwise: ascending, apart.

  /// With ranges rounded to multiples of `granule`.
  static Footprint of(const op::Any& operation, Offset granule);
  [[nodiscard]] bool conflicts_with(const Footprint& other) const;
};

class OperationOrder {
 public:
  struct Entry {
    BatchPtr batch;
    std::size_t index = 0;  ///< In the batch.
    Footprint footprint;
    Priority priority = Priority::kDemand;
    std::uint64_t number = 0;  ///< In the order of submission.
    std::size_t blockers = 0;  ///< Earlier operations that conflict.
    std::vector<Entry*> blocked;
    bool has_begun = false;
    std::list<Entry>::iterator place = {};

    [[nodiscard]] Operation& operation() const { return batch->batch.operations[index]; }
  };

  explicit OperationOrder(Offset granule = 1) : granule_(granule) {}

  /// All operations of the batch.  An empty batch is the caller's affair.
  void add(const BatchPtr& batch);
  /// The operation that is to begin now; null: none can.
  Entry* next();
  /// It has ended.  \returns the batch if this was the last of it: to be completed by the caller
  BatchPtr finish(Entry* entry);

  /// Operations that have not ended.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool is_ready() const noexcept { return !ready_.empty(); }

 private:
  struct Before {
    bool operator()(const Entry* a, const Entry* b) const {
      return std::pair(a->priority, a->number) < std::pair(b->priority, b->number);
    }
  };
  void add_one(const BatchPtr& batch, std::size_t index);
  void promote(Entry& entry);

  Offset granule_;
  std::uint64_t last_number_ = 0;
  std::size_t size_ = 0;
  std::map<SubfileId, std::list<Entry>> entries_;  // not ended, in the order of submission
  std::set<Entry*, Before> ready_;
};

/// kUnavailable: the store was stopped, or the caller gave up, before the operation began.
Status not_begun(const Operation& operation, bool is_stopped);
/// Completes all operations of a batch with kUnavailable.
void refuse(IoBatch batch, const Completion& done);

}  // namespace weir::storage::internal
