// The layout of a file that is to be stored as its ranks see it.

#include <weir/layout/language.h>
#include <weir/layout/view_layout.h>
#include <weir/log/log.h>
#include <weir/mpiio/internal/file.h>
#include <weir/mpiio/internal/trace.h>

namespace weir::mpiio::internal {

namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 20;  // of a view, for other ranks

Result<layout::Partition> layout_of_texts(const std::vector<std::string>& texts, const layout::GapStripes& gaps) {
  std::vector<layout::Element> views;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) return too_complex(concat("the view of rank ", rank, " has too many parts"));
    WEIR_TRY(layout::Element view, layout::from_text(texts[rank]));
    views.push_back(std::move(view));
  }
  return layout::layout_of_views(views, gaps);
}

}  // namespace

// Collective.  The file has been made, striped; if it has no bytes yet its layout can still be changed.
Outcome File::store_as_viewed(const layout::Element& mine) {
  constexpr const char* kCall = "MPI_File_set_view";
  is_as_viewed_ = false;
  std::string text = layout::to_text(mine);
  if (text.size() > kLongestText) text.clear();
  WEIR_TRY(const std::vector<std::string> texts, meeting_->gather(concat(kCall, " ", path_), text));
  if (meeting_->rank() == 0) {
    Status status;
    const auto layout = layout_of_texts(texts, {.over = fs_->target_count()});
    status = layout.is_ok() ? fs_->set_layout(path_, *layout) : layout.status();
    if (status.is_ok()) {
      trace::stored(this, layout::print(*layout), "as the first views of the ranks");
      WEIR_LOG_INFO("{}: stored as the views of {} ranks: {}", path_, texts.size(), layout::print(*layout));
    } else {
      trace::stored(this, layout::print(data_->layout()), concat("the views cannot be a layout: ", status.message()));
      WEIR_LOG_WARN("{}: weir_layout=view: stays {}: {}", path_, layout::print(data_->layout()), status.message());
    }
  }
  WEIR_PASS(meet(kCall, {}, Outcome::ok(), Together::kAllOrNone));
  const auto reopened = fs_->open(path_);
  if (reopened.is_ok()) data_ = *reopened;
  WEIR_PASS(meet(kCall, {}, reopened.status(), Together::kAllOrNone));
  const std::lock_guard lock(mutex_);
  describe_layout(data_->layout(), hints_);
  return Outcome::ok();
}

}  // namespace weir::mpiio::internal
