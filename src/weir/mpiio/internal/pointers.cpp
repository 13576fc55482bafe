// File pointers: the individual one is a number of this process, the shared one a counter of the file system.

#include <weir/mpiio/internal/file.h>

namespace weir::mpiio::internal {

Outcome File::check_not_sequential(const char* call) const {
  if ((amode_ & MPI_MODE_SEQUENTIAL) == 0) return Outcome::ok();
  return fail(MPI_ERR_UNSUPPORTED_OPERATION, call, " ", path_,
              ": a file opened with MPI_MODE_SEQUENTIAL has the shared pointer only");
}

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
Outcome File::reset_shared(const char* call, bool is_used, Offset value) {
  if (!is_used && value == 0) return Outcome::ok();
  std::optional<client::Counter> fresh;
  Outcome mine;
  if (meeting_->rank() == 0) {
    auto made = fs_->make_counter(value);
    mine = made.status();
    if (made.is_ok()) fresh = *made;
  }
  WEIR_PASS(meet(call, {}, mine, Together::kAllOrNone));
  WEIR_TRY(const Offset id, meeting_->value_of(call, 0, fresh ? static_cast<Offset>(fresh->id()) : 0));
  const std::lock_guard lock(mutex_);
  shared_ = std::move(fresh);
  shared_id_ = static_cast<std::uint64_t>(id);
  is_shared_used_ = value != 0;
  return Outcome::ok();
}

// Where an access of `bytes` starts, in bytes of the view; moves the pointer behind it.
Outcome File::locate(const Access& access, const FileView& view, Offset bytes, Offset& from) {
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
    WEIR_TRY(const Offset below, meeting_->sum_below(call, etypes));
    const int last = meeting_->size() - 1;
    Result<Offset> base = Offset{0};
    if (meeting_->rank() == last) {
      base = [&]() -> Result<Offset> {
        WEIR_TRY(const client::Counter pointer, shared());
        return pointer.fetch_add(below + etypes);
      }();
    }
    WEIR_TRY(const Offset told, meeting_->value_of(call, last, base.is_ok() ? *base : -1));
    if (!base.is_ok()) return base.status();
    if (told < 0) return fail(MPI_ERR_IO, call, ": rank ", last, " could not move the shared pointer");
    start = told + below;
  }
  WEIR_TRY(from, checked_mul(start, view.etype_bytes));
  return Outcome::ok();
}

Outcome File::target_of_seek(const char* call, Offset offset, int whence, Offset current, Offset& position) {
  Offset base = 0;
  if (whence == MPI_SEEK_CUR) {
    base = current;
  } else if (whence == MPI_SEEK_END) {
    WEIR_TRY(const Offset size, data_->size());
    base = view()->end_of(size);
  } else if (whence != MPI_SEEK_SET) {
    return fail(MPI_ERR_ARG, call, " ", path_, ": whence ", whence,
                " is none of MPI_SEEK_SET, MPI_SEEK_CUR, MPI_SEEK_END");
  }
  WEIR_TRY(position, checked_add(base, offset));
  if (position < 0) return fail(MPI_ERR_ARG, call, " ", path_, ": the position would be ", position);
  return Outcome::ok();
}

Outcome File::seek(Offset offset, int whence) {
  constexpr const char* kCall = "MPI_File_seek";
  WEIR_PASS(check_not_sequential(kCall));
  Offset current = 0;
  WEIR_PASS(get_position(current));
  Offset position = 0;
  WEIR_PASS(target_of_seek(kCall, offset, whence, current, position));
  const std::lock_guard lock(mutex_);
  position_ = position;
  return Outcome::ok();
}

Outcome File::seek_shared(Offset offset, int whence) {
  constexpr const char* kCall = "MPI_File_seek_shared";
  const std::vector<Term> terms{{"offset", concat(offset)}, {"whence", concat(whence)}};
  WEIR_PASS(meet(kCall, terms, check_not_sequential(kCall), Together::kAllOrNone));
  Outcome mine;
  if (meeting_->rank() == 0) {
    mine = [&]() -> Outcome {
      WEIR_TRY(const client::Counter pointer, shared());
      WEIR_TRY(const Offset current, pointer.get());
      Offset position = 0;
      WEIR_PASS(target_of_seek(kCall, offset, whence, current, position));
      return pointer.set(position);
    }();
  }
  return meet(kCall, {}, mine, Together::kAllOrNone);
}

Outcome File::get_position(Offset& position) const {
  WEIR_PASS(check_not_sequential("MPI_File_get_position"));
  const std::lock_guard lock(mutex_);
  position = position_;
  return Outcome::ok();
}

Outcome File::get_position_shared(Offset& position) {
  WEIR_PASS(check_not_sequential("MPI_File_get_position_shared"));
  WEIR_TRY(const client::Counter pointer, shared());
  WEIR_TRY(position, pointer.get());
  return Outcome::ok();
}

}  // namespace weir::mpiio::internal
