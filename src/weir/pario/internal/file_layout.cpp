// The layout of a file that is to be stored as its ranks see it, each rank's bytes on its own host.

#include <weir/layout/language.h>
#include <weir/layout/view_layout.h>
#include <weir/log/log.h>
#include <weir/pario/file.h>
#include <weir/pario/internal/placement.h>
#include <weir/pario/internal/text.h>
#include <weir/pario/internal/transfer.h>

namespace weir::pario {

namespace {

constexpr char kViewNotApplied[] = "weir_layout=view did not apply: ";  // the report looks for it

// What a rank tells the others: its host and its view, a line each.
struct HostsAndViews {
  std::vector<std::string> hosts;
  std::vector<std::string> views;  // empty: too long to be told
};

std::string tell(const layout::Element& mine) {
  return concat(client::FileSystem::this_host(), '\n', text_for_others(mine));
}

HostsAndViews parse_hosts_and_views(const std::vector<std::string>& texts) {
  HostsAndViews told;
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

// More is not moved to another layout while all ranks wait: bytes that are stored, and the size, of which holes are
// only read.
constexpr Offset kMostStored = Offset{64} << 20;
constexpr Offset kMostSize = Offset{1} << 30;

// How an attempt ended.
enum class Tried : std::uint8_t {
  kDone,
  kLater,  // other views, or the first collective write, may be of more use
  kNever,
};

struct Attempt {
  Tried tried = Tried::kLater;
  std::string why;
};

Attempt move_bytes(const client::FileSystem& fs, const client::File& file, const layout::Partition& layout,
                   const std::vector<std::uint32_t>& targets) {
  const Result<client::Stat> stat = fs.stat(file.path());
  if (!stat.is_ok()) return {Tried::kNever, stat.status().message()};
  Offset stored = 0;
  for (const client::Stat::Subfile& subfile : stat->subfiles) stored += subfile.stored_bytes;
  if (stored > kMostStored || stat->size > kMostSize) {
    return {Tried::kNever, concat("the file was too large at the first collective write: ", stat->size, " bytes, ",
                                  stored, " of them stored; at most ", kMostSize, " and ", kMostStored)};
  }
  const Status status = fs.relayout(file.path(), layout, {.targets = targets, .progress = {}});
  if (!status.is_ok()) return {Tried::kNever, status.message()};
  return {Tried::kDone, concat("; ", stored, " bytes that were stored before were moved")};
}

// On one rank.
Attempt store_by_views(const client::FileSystem& fs, const client::File& file, const HostsAndViews& told,
                       bool is_write) {
  const Result<layout::Partition> layout = layout_of_texts(told.views, {.over = fs.target_count()});
  if (!layout.is_ok()) return {Tried::kLater, concat("the views cannot be a layout: ", layout.status().message())};
  const std::size_t ranks = told.hosts.size();
  const auto subfiles = static_cast<std::size_t>(layout->element_count());
  const internal::Placement placement =
      internal::place_at_ranks(told.hosts, fs.target_hosts(), subfiles, file.targets().front());
  const Result<Offset> size = file.size();
  if (!size.is_ok()) return {Tried::kNever, size.status().message()};
  Attempt attempt;
  if (*size == 0) {
    const Status status = fs.set_layout(file.path(), *layout, placement.targets);
    attempt = {status.is_ok() ? Tried::kDone : Tried::kNever, status.message()};
  } else if (is_write) {
    attempt = move_bytes(fs, file, *layout, placement.targets);
  } else {
    return {Tried::kLater,
            concat("the file had ", *size, " bytes when views were set, and no collective write followed")};
  }
  if (attempt.tried != Tried::kDone) return attempt;
  std::string why =
      concat("as the views of the ranks, ", placement.at_rank, " of ", ranks, " on the host of their rank");
  if (subfiles > ranks) why += concat("; ", subfiles - ranks, " more for bytes that no rank sees");
  return {Tried::kDone, why + attempt.why};
}

}  // namespace

// Collective.  Only the first rank looks.
Status File::refresh_as_on_first(const std::string& call) {
  const bool is_first = rank() == 0;
  Status status;
  std::string description;
  if (is_first) status = data_->refresh();
  if (is_first && status.is_ok()) description = internal::to_text(data_->describe());
  WEIR_TRY(description, meeting_.group().bytes_of(call, 0, std::move(description)));
  if (!is_first && !description.empty()) status = data_->refresh(std::as_bytes(std::span(description)));
  return status;
}

// Collective.  The file has been made, striped.  If the views of the ranks can be a layout, it gets that: at once if it
// is empty, otherwise at the first collective write, as long as little must be moved.
Status File::store_as_viewed(Operation operation, const std::string& call, const layout::Element& mine, bool is_write) {
  WEIR_TRY(const std::vector<std::string> texts, meeting_.group().gather(call, tell(mine)));
  Attempt attempt;
  if (rank() == 0) attempt = store_by_views(*fs_, *data_, parse_hosts_and_views(texts), is_write);
  WEIR_TRY(const Offset told, meeting_.group().value_of(call, 0, static_cast<Offset>(attempt.tried)));
  const auto tried = static_cast<Tried>(told);
  is_as_viewed_ = tried == Tried::kLater && --view_attempts_ > 0;
  Status refreshed;
  if (tried == Tried::kDone) {
    refreshed = refresh_as_on_first(call);
    binder_.clear();
    is_in_memory_here_ = data_->is_in_memory_here();
  }
  WEIR_RETURN_IF_ERROR(meet(operation, call, {}, refreshed, Together::kAllOrNone));
  if (rank() == 0) {
    const std::string layout = layout::print(data_->layout());
    const std::string why = tried == Tried::kDone ? attempt.why : concat(kViewNotApplied, attempt.why);
    if (is_observed()) options_.observer->stored(layout, why);
    if (tried == Tried::kLater && is_as_viewed_) return Status::ok();
    if (tried == Tried::kDone) {
      WEIR_LOG_INFO("{}: layout {} ({})", path_, layout, why);
    } else {
      WEIR_LOG_WARN("{}: stays {}: {}", path_, layout, why);
    }
  }
  const std::lock_guard lock(mutex_);
  describe_layout(data_->layout(), hints_);
  return Status::ok();
}

// Before the first collective write through a view.
Status File::store_before_writing(const AccessRequest& access, Mode mode) {
  const bool is_due = is_as_viewed_ && access.is_write && access.is_collective && is_view_fresh_;
  if (!is_due) return Status::ok();
  is_view_fresh_ = false;
  const Operation operation = collective_access(mode, access.pointer, true);
  const std::string call = concat(access.call, " ", path_);
  WEIR_RETURN_IF_ERROR(meet(operation, call, {}, Status::ok(), Together::kEach));  // others may have made another call
  const std::shared_ptr<const View> current = view();
  WEIR_RETURN_IF_ERROR(store_as_viewed(operation, call, current->element(), true));
  const Result<std::shared_ptr<const View>> fresh =
      binder_.bind(*data_, ranks(), {.element = current->element(), .etype_bytes = current->etype_bytes});
  WEIR_RETURN_IF_ERROR(meet(operation, call, {}, fresh.status(), Together::kAllOrNone));
  use(*fresh);
  return Status::ok();
}

}  // namespace weir::pario
