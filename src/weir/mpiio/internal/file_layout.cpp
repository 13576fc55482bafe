// The layout of a file that is to be stored as its ranks see it, each rank's bytes on its own host.

#include <weir/layout/language.h>
#include <weir/layout/view_layout.h>
#include <weir/log/log.h>
#include <weir/mpiio/internal/file.h>
#include <weir/mpiio/internal/placement.h>
#include <weir/mpiio/internal/trace.h>

namespace weir::mpiio::internal {

namespace {

// What a rank tells the others: its host and its view, a line each.
struct Told {
  std::vector<std::string> hosts;
  std::vector<std::string> views;  // empty: too long to be told
};

std::string tell(const layout::Element& mine) {
  return concat(client::FileSystem::this_host(), '\n', text_for_others(mine));
}

Told understand(const std::vector<std::string>& texts) {
  Told told;
  for (const std::string& text : texts) {
    const std::size_t end = text.find('\n');
    told.hosts.push_back(text.substr(0, end));
    told.views.push_back(text.substr(end + 1));
  }
  return told;
}

Result<layout::Partition> layout_of_texts(const std::vector<std::string>& texts, const layout::GapStripes& gaps) {
  std::vector<layout::Element> views;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty()) return too_complex(concat("the view of rank ", rank, " has too many parts"));
    WEIR_TRY(layout::Element view, layout::from_text(texts[rank]));
    views.push_back(std::move(view));
  }
  return layout::layout_of_views(views, gaps);
}

struct Stored {
  layout::Partition layout;
  std::string why;
};

Result<Stored> store(const client::FileSystem& fs, const client::File& file, const Told& told) {
  WEIR_TRY(layout::Partition layout, layout_of_texts(told.views, {.over = fs.target_count()}));
  const std::size_t ranks = told.hosts.size();
  const auto subfiles = static_cast<std::size_t>(layout.element_count());
  const Placement placement = place_at_ranks(told.hosts, fs.target_hosts(), subfiles, file.targets().front());
  WEIR_RETURN_IF_ERROR(fs.set_layout(file.path(), layout, placement.targets));
  std::string why =
      concat("as the first views of the ranks, ", placement.at_rank, " of ", ranks, " on the host of their rank");
  if (subfiles > ranks) why += concat("; ", subfiles - ranks, " more for bytes that no rank sees");
  return Stored{std::move(layout), std::move(why)};
}

}  // namespace

// Collective.  The file has been made, striped; if it has no bytes yet its layout can still be changed.
Outcome File::store_as_viewed(const layout::Element& mine) {
  constexpr const char* kCall = "MPI_File_set_view";
  is_as_viewed_ = false;
  WEIR_TRY(const std::vector<std::string> texts, meeting_->gather(concat(kCall, " ", path_), tell(mine)));
  if (meeting_->rank() == 0) {
    const Result<Stored> stored = store(*fs_, *data_, understand(texts));
    if (stored.is_ok()) {
      trace::stored(this, layout::print(stored->layout), stored->why);
      WEIR_LOG_INFO("{}: layout {} ({})", path_, layout::print(stored->layout), stored->why);
    } else {
      const std::string why = stored.status().message();
      trace::stored(this, layout::print(data_->layout()), concat("the views cannot be a layout: ", why));
      WEIR_LOG_WARN("{}: weir_layout=view: stays {}: {}", path_, layout::print(data_->layout()), why);
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
