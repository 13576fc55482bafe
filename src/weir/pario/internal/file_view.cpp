// Views of a file.

#include <weir/log/log.h>
#include <weir/pario/errors.h>
#include <weir/pario/file.h>
#include <weir/pario/internal/transfer.h>

namespace weir::pario {

std::shared_ptr<const View> File::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

// Collective.
void File::use(std::shared_ptr<const View> fresh) {
  if (is_observed()) options_.observer->viewed(*fresh, data_->layout());
  collective_state_.reset();
  const std::lock_guard lock(mutex_);
  view_ = std::move(fresh);
}

Status File::set_view(const ViewDescription& description, const std::optional<Hints>& given,
                      std::vector<group::Term> terms, const Status& mine) {
  constexpr Operation kOperation = Operation::kSetView;
  std::shared_ptr<const View> fresh;
  const auto bind = [&]() -> Status {
    WEIR_TRY(fresh, binder_.bind(*data_, ranks(), description));
    return Status::ok();
  };
  Status status = mine;
  if (status.is_ok()) status = check_nothing_begun(meeting_.name_of(kOperation));
  if (status.is_ok() && !is_as_viewed_) status = bind();
  if (status.is_ok()) terms.push_back({"bytes of the etype", concat(description.etype_bytes)});
  bool is_shared_used = is_shared_used_;
  std::optional<Hints> hints;
  if (given) {
    const std::lock_guard lock(mutex_);
    hints = hints_;
    hints->merge(usable(*given, rank() == 0));
    wanted_ = wanted_method(*hints, *options_.runtime.settings);
  }
  const Status met = meet(kOperation, terms, status, Together::kAllOrNone, &is_shared_used);
  if (!met.is_ok()) {
    const std::lock_guard lock(mutex_);
    wanted_ = wanted_method(hints_, *options_.runtime.settings);
    return met;
  }
  if (is_as_viewed_) {
    WEIR_RETURN_IF_ERROR(store_as_viewed(kOperation, call_text(kOperation), description.element, false));
    WEIR_RETURN_IF_ERROR(meet(kOperation, {}, bind(), Together::kAllOrNone));
  }
  WEIR_RETURN_IF_ERROR(reset_shared(kOperation, is_shared_used, 0));
  WEIR_LOG_DEBUG("{}: {}", path_, fresh->bound.explain());
  use(std::move(fresh));
  const std::lock_guard lock(mutex_);
  is_view_fresh_ = true;
  position_ = 0;
  if (hints) {
    hints_ = *std::move(hints);
    describe_layout(data_->layout(), hints_);
  }
  return Status::ok();
}

Result<Offset> File::byte_offset(Offset offset) const {
  const std::string_view name = meeting_.name_of(Operation::kByteOffset);
  if (offset < 0) return invalid_argument(concat(name, " ", path_, ": the offset is ", offset));
  const auto current = view();
  WEIR_TRY(const Offset from, checked_mul(offset, current->etype_bytes));
  const auto found = current->unmap(from);
  if (found) return *found;
  return invalid_argument(concat(name, " ", path_, ": etype ", offset, " of the view lies beyond the largest file"));
}

}  // namespace weir::pario
