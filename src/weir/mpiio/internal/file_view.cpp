// Views of a file.

#include <weir/log/log.h>
#include <weir/mpiio/internal/file.h>
#include <weir/mpiio/internal/requests.h>
#include <weir/mpiio/internal/running.h>
#include <weir/mpiio/internal/trace.h>
#include <weir/mpiio/internal/transfer.h>

namespace weir::mpiio::internal {

std::shared_ptr<const FileView> File::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

// MPI_DISPLACEMENT_CURRENT: where the shared pointer is; for files without random access, and only for them.
Outcome File::resolve_displacement(ViewArguments& arguments) {
  constexpr const char* kCall = "MPI_File_set_view";
  const bool is_current = arguments.disp == MPI_DISPLACEMENT_CURRENT;
  const bool is_sequential = (amode_ & MPI_MODE_SEQUENTIAL) != 0;
  if (is_sequential && !is_current) {
    return fail(MPI_ERR_ARG, kCall, " ", path_,
                ": MPI_MODE_SEQUENTIAL needs the displacement MPI_DISPLACEMENT_CURRENT");
  }
  if (!is_current) return Outcome::ok();
  if (!is_sequential) {
    return fail(MPI_ERR_ARG, kCall, " ", path_, ": MPI_DISPLACEMENT_CURRENT is for MPI_MODE_SEQUENTIAL");
  }
  WEIR_TRY(const client::Counter pointer, shared());
  WEIR_TRY(const Offset position, pointer.get());
  return byte_at(position, arguments.disp);
}

Outcome File::set_view(const ViewArguments& given, MPI_Info info) {
  constexpr const char* kCall = "MPI_File_set_view";
  if (!is_mpi_running()) return fail(MPI_ERR_OTHER, kCall, " ", path_, ": MPI has been finalized");
  finish_requests(*this);
  ViewArguments arguments = given;
  ViewDescription description;
  std::shared_ptr<const FileView> fresh;
  Outcome mine = check_nothing_begun(kCall, MPI_ERR_IO);
  if (mine.is_ok()) mine = resolve_displacement(arguments);
  if (mine.is_ok()) mine = named(kCall, path_, describe_view(arguments, (amode_ & MPI_MODE_RDONLY) != 0, description));
  if (mine.is_ok() && !is_as_viewed_) mine = binder_.bind(*data_, meeting_->size(), arguments, description, fresh);
  std::vector<Term> terms{{"data representation", arguments.representation}};
  if (mine.is_ok()) terms.push_back({"bytes of the etype", concat(description.etype_bytes)});
  bool is_shared_used = is_shared_used_;
  std::optional<Hints> hints;
  if (info != MPI_INFO_NULL) {
    const std::lock_guard lock(mutex_);
    hints = hints_;
    hints->merge(usable(Hints::read(info), meeting_->rank() == 0));
    wanted_ = wanted_method(hints->get("weir_collective"));
  }
  const Outcome met = meet(kCall, terms, mine, Together::kAllOrNone, &is_shared_used);
  if (!met.is_ok()) {
    const std::lock_guard lock(mutex_);
    wanted_ = wanted_method(hints_.get("weir_collective"));
    return met;
  }
  if (is_as_viewed_) {
    WEIR_PASS(store_as_viewed(kCall, description.element, false));
    WEIR_PASS(
        meet(kCall, {}, binder_.bind(*data_, meeting_->size(), arguments, description, fresh), Together::kAllOrNone));
  }
  WEIR_PASS(reset_shared(kCall, is_shared_used, 0));
  WEIR_LOG_DEBUG("{}: {}", path_, fresh->bound.explain());
  trace::viewed(this, *fresh, data_->layout());
  collective_state_.reset();
  const std::lock_guard lock(mutex_);
  view_ = std::move(fresh);
  is_view_fresh_ = true;
  position_ = 0;
  if (hints) {
    hints_ = *std::move(hints);
    describe_layout(data_->layout(), hints_);
  }
  return Outcome::ok();
}

Outcome File::get_type_extent(MPI_Datatype type, Offset& extent) const {
  if (type == MPI_DATATYPE_NULL) {
    return fail(MPI_ERR_TYPE, "MPI_File_get_type_extent ", path_, ": the type is MPI_DATATYPE_NULL");
  }
  WEIR_TRY(extent, file_extent(type, view()->representation.get()));
  return Outcome::ok();
}

Outcome File::get_byte_offset(Offset offset, Offset& byte) const {
  constexpr const char* kCall = "MPI_File_get_byte_offset";
  WEIR_PASS(check_not_sequential(kCall));
  if (offset < 0) return fail(MPI_ERR_ARG, kCall, " ", path_, ": the offset is ", offset);
  return byte_at(offset, byte);
}

// The byte of the file where etype `offset` of the view starts.
Outcome File::byte_at(Offset offset, Offset& byte) const {
  const auto current = view();
  WEIR_TRY(const Offset from, checked_mul(offset, current->etype_bytes));
  const auto found = current->unmap(from);
  if (!found) return fail(MPI_ERR_ARG, path_, ": etype ", offset, " of the view lies beyond the largest file");
  byte = *found;
  return Outcome::ok();
}

}  // namespace weir::mpiio::internal
