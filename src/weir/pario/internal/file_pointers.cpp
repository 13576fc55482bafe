// File pointers: the individual one is a number of this process, the shared one a counter of the file system.

#include <weir/pario/errors.h>
#include <weir/pario/file.h>

namespace weir::pario {

// The counter that all ranks' shared pointer is; found by its id when first used.
Result<client::Counter> File::shared() {
  const std::lock_guard lock(mutex_);
  is_shared_used_ = true;
  if (!shared_) {
    WEIR_TRY(shared_, fs_->counter(shared_id_));
  }
  return *shared_;
}

// Ranks may still use the old pointer until they come to this call, and the new one as soon as they leave it: so it is
// another counter.
Status File::reset_shared(Operation operation, bool is_used, Offset value) {
  if (!is_used && value == 0) return Status::ok();
  std::optional<client::Counter> fresh;
  Status mine;
  if (rank() == 0) {
    const Result<client::Counter> made = fs_->make_counter(value);
    mine = made.status();
    if (made.is_ok()) fresh = *made;
  }
  WEIR_RETURN_IF_ERROR(meet(operation, {}, mine, Together::kAllOrNone));
  WEIR_TRY(const Offset id,
           meeting_.group().value_of(call_text(operation), 0, fresh ? static_cast<Offset>(fresh->id()) : 0));
  const std::lock_guard lock(mutex_);
  shared_ = std::move(fresh);
  shared_id_ = static_cast<std::uint64_t>(id);
  is_shared_used_ = value != 0;
  return Status::ok();
}

// Where an access of `bytes` starts, in bytes of the view; moves the pointer behind it.
Result<Offset> File::locate(const AccessRequest& access, const View& view, Offset bytes) {
  const Offset etypes = bytes / view.etype_bytes;
  Offset start = access.offset;
  if (access.pointer == Pointer::kIndividual) {
    const std::lock_guard lock(mutex_);
    start = position_;
    position_ += etypes;
  } else if (access.pointer == Pointer::kShared) {
    WEIR_TRY(const client::Counter pointer, shared());
    WEIR_TRY(start, pointer.fetch_add(etypes));
  } else if (access.pointer == Pointer::kOrdered) {
    // The last rank knows the sum, and reserves for all.
    const std::string call = concat(access.call, " ", path_);
    group::Group& group = meeting_.group();
    WEIR_TRY(const Offset below, group.sum_below(call, etypes));
    const int last = group.size() - 1;
    Result<Offset> base = Offset{0};
    if (group.rank() == last) {
      base = [&]() -> Result<Offset> {
        WEIR_TRY(const client::Counter pointer, shared());
        return pointer.fetch_add(below + etypes);
      }();
    }
    WEIR_TRY(const Offset told, group.value_of(call, last, base.is_ok() ? *base : -1));
    if (!base.is_ok()) return base.status();
    if (told < 0) {
      return Status(ErrorCode::kIoError, concat(call, ": rank ", last, " could not move the shared pointer"));
    }
    start = told + below;
  }
  return checked_mul(start, view.etype_bytes);
}

Result<Offset> File::target_of_seek(Operation operation, Offset offset, SeekFrom from, Offset current) {
  Offset base = 0;
  if (from == SeekFrom::kCurrent) {
    base = current;
  } else if (from == SeekFrom::kEnd) {
    WEIR_TRY(const Offset bytes, data_->size());
    base = view()->end_of(bytes);
  }
  WEIR_TRY(const Offset position, checked_add(base, offset));
  if (position >= 0) return position;
  return invalid_argument(concat(meeting_.name_of(operation), " ", path_, ": the position would be ", position));
}

Status File::seek(Offset offset, SeekFrom from) {
  WEIR_TRY(const Offset target, target_of_seek(Operation::kSeek, offset, from, position()));
  const std::lock_guard lock(mutex_);
  position_ = target;
  return Status::ok();
}

Status File::seek_shared(Offset offset, SeekFrom from, const Status& mine) {
  constexpr Operation kOperation = Operation::kSeekShared;
  const std::vector<group::Term> terms{{"offset", concat(offset)}, {"whence", concat(static_cast<int>(from))}};
  WEIR_RETURN_IF_ERROR(meet(kOperation, terms, mine, Together::kAllOrNone));
  const auto move = [&]() -> Status {
    WEIR_TRY(const client::Counter pointer, shared());
    WEIR_TRY(const Offset current, pointer.get());
    WEIR_TRY(const Offset target, target_of_seek(kOperation, offset, from, current));
    return pointer.set(target);
  };
  return meet(kOperation, {}, rank() == 0 ? move() : Status::ok(), Together::kAllOrNone);
}

Offset File::position() const {
  const std::lock_guard lock(mutex_);
  return position_;
}

Result<Offset> File::shared_position() {
  WEIR_TRY(const client::Counter pointer, shared());
  return pointer.get();
}

}  // namespace weir::pario
