#pragma once

#include <weir/base/checked.h>
#include <weir/base/result.h>
#include <weir/base/text.h>

namespace weir::storage::internal {

/// Bytes that a memory store may take, and has taken.
class Room {
 public:
  explicit Room(Offset capacity_bytes) : capacity_(capacity_bytes) {}

  [[nodiscard]] Offset capacity_bytes() const noexcept { return capacity_; }
  [[nodiscard]] Offset used_bytes() const noexcept { return used_; }
  [[nodiscard]] Offset free_bytes() const noexcept { return capacity_ - used_; }

  Status take(Offset bytes) {
    if (bytes <= free_bytes()) return used_ += bytes, Status::ok();
    return {ErrorCode::kNoSpace,
            concat("the memory store is full: ", bytes, " bytes asked for, ", free_bytes(), " free of ", capacity_,
                   "; raise --capacity of weir run or weir up, add --servers, or remove files")};
  }
  void give_back(Offset bytes) noexcept { used_ -= bytes; }

 private:
  Offset capacity_;
  Offset used_ = 0;
};

}  // namespace weir::storage::internal
