#include <weir/mpiio/internal/view.h>

#include <algorithm>
#include <mutex>

#include <weir/layout/view_layout.h>
#include <weir/mpiio/internal/datatype.h>
#include <weir/mpiio/internal/running.h>

namespace weir::mpiio::internal {

namespace {

LeafSize leaf_size_of(const Representation* representation) {
  return representation != nullptr ? representation->leaf_size() : LeafSize::kNative;
}

MPI_Datatype copy_of(MPI_Datatype type) {
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  PMPI_Type_dup(type, &copy);
  return copy;
}

}  // namespace

bool is_predefined(MPI_Datatype type) {
  int combiner = MPI_COMBINER_NAMED;
#if MPI_VERSION >= 4
  // The other function ends the program if the type was made by a call with large counts.
  MPI_Count integers = 0;
  MPI_Count addresses = 0;
  MPI_Count large_counts = 0;
  MPI_Count types = 0;
  PMPI_Type_get_envelope_c(type, &integers, &addresses, &large_counts, &types, &combiner);
#else
  int integers = 0;
  int addresses = 0;
  int types = 0;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
#endif
  return combiner == MPI_COMBINER_NAMED;
}

HeldType::HeldType(MPI_Datatype type) : type_(type) {
  if (is_predefined(type)) return;
  type_ = copy_of(type);
  is_copy_ = true;
}

HeldType::~HeldType() {
  if (is_copy_ && is_mpi_running()) PMPI_Type_free(&type_);
}

MPI_Datatype HeldType::give() const { return is_copy_ ? copy_of(type_) : type_; }

Result<Offset> file_bytes(MPI_Datatype type, const Representation* representation) {
  if (representation == nullptr) {
    MPI_Count size = 0;
    const Outcome outcome = from_mpi(PMPI_Type_size_x(type, &size), "MPI_Type_size");
    if (!outcome.is_ok()) return invalid_argument(outcome.message());
    return static_cast<Offset>(size);
  }
  WEIR_TRY(const Typemap map, decode(type, leaf_size_of(representation)));
  return map.size;
}

std::string text_for_others(const layout::Element& element) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  std::string text = layout::to_text(element);
  if (text.size() > kLongest) text.clear();
  return text;
}

Offset FileView::end_in_file(Offset from, Offset bytes) const {
  if (!overlap) {
    const auto last = element().unmap(from + bytes - 1);
    return last ? *last + 1 : kMaxBytes;
  }
  const auto pieces = overlap->pieces(from, bytes);
  if (!pieces.is_ok()) return kMaxBytes;
  Offset end = 0;
  for (const layout::Segment& piece : *pieces) end = std::max(end, piece.end());
  return end;
}

namespace {

Status decode_view(const ViewArguments& arguments, bool is_read_only, ViewDescription& description) {
  const Representation* const representation = description.representation.get();
  WEIR_TRY(const Typemap etype, decode(arguments.etype, leaf_size_of(representation)));
  WEIR_TRY(const Typemap filetype, decode(arguments.filetype, leaf_size_of(representation)));
  description.etype_bytes = etype.size;
  const Result<layout::Element> element = view_element(arguments.disp, etype, filetype);
  if (element.is_ok()) description.element = *element;
  if (!has_overlaps(filetype, element) || (!is_read_only && element.is_ok())) return element.status();
  WEIR_TRY(OverlappingView overlap, overlapping_view(arguments.disp, etype, filetype));
  if (!is_read_only) {
    return invalid_argument(
        concat(element.status().message(), "; filetypes that overlap are for files opened with MPI_MODE_RDONLY"));
  }
  description.overlap = std::make_shared<const OverlappingView>(std::move(overlap));
  return Status::ok();
}

// The last view that had a filetype, kept as an attribute of that.  MPI drops it with the type, and no other type of
// the same number has it.
struct LastView {
  ViewArguments arguments;
  bool is_read_only = false;
  ViewDescription description;
};

int forget_view(MPI_Datatype, int, void* value, void*) {
  delete static_cast<LastView*>(value);
  return MPI_SUCCESS;
}

int view_keyval() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget_view, &made, nullptr);
    return made;
  }();
  return key;
}

std::mutex last_views_mutex;

// Null if there is none.  With the mutex held.
LastView* last_view(MPI_Datatype filetype) {
  LastView* last = nullptr;
  int is_there = 0;
  PMPI_Type_get_attr(filetype, view_keyval(), static_cast<void*>(&last), &is_there);
  return is_there != 0 ? last : nullptr;
}

// Etypes that the program makes may be others of the same number, unless they are the filetype itself.
bool may_be_kept(const ViewArguments& arguments) {
  return !is_predefined(arguments.filetype) &&
         (arguments.etype == arguments.filetype || is_predefined(arguments.etype));
}

bool is_same(const LastView& last, const ViewArguments& arguments, bool is_read_only,
             const std::shared_ptr<const Representation>& representation) {
  return last.arguments.disp == arguments.disp && last.arguments.etype == arguments.etype &&
         last.is_read_only == is_read_only && last.description.representation == representation;
}

void keep_view(const ViewArguments& arguments, bool is_read_only, const ViewDescription& description) {
  const std::lock_guard lock(last_views_mutex);
  if (LastView* const last = last_view(arguments.filetype)) {
    *last = {arguments, is_read_only, description};
    return;
  }
  auto fresh = std::make_unique<LastView>(LastView{arguments, is_read_only, description});
  if (PMPI_Type_set_attr(arguments.filetype, view_keyval(), fresh.get()) == MPI_SUCCESS) {
    static_cast<void>(fresh.release());
  }
}

bool is_same(const layout::Element& x, const layout::Element& y) {
  return &x.trees() == &y.trees() || (x.disp() == y.disp() && x.period() == y.period() && x.falls() == y.falls());
}

}  // namespace

Outcome describe_view(const ViewArguments& arguments, bool is_read_only, ViewDescription& description) {
  if (arguments.disp < 0) return fail(MPI_ERR_ARG, "the displacement is ", arguments.disp);
  if (arguments.etype == MPI_DATATYPE_NULL || arguments.filetype == MPI_DATATYPE_NULL) {
    return fail(MPI_ERR_TYPE, "a type is MPI_DATATYPE_NULL");
  }
  WEIR_PASS(find_representation(arguments.representation, description.representation));
  const bool is_kept = may_be_kept(arguments);
  if (is_kept) {
    const std::lock_guard lock(last_views_mutex);
    const LastView* const last = last_view(arguments.filetype);
    if (last != nullptr && is_same(*last, arguments, is_read_only, description.representation)) {
      description = last->description;
      return Outcome::ok();
    }
  }
  const Status made = decode_view(arguments, is_read_only, description);
  if (!made.is_ok()) return fail(MPI_ERR_TYPE, made.message());
  if (is_kept) keep_view(arguments, is_read_only, description);
  return Outcome::ok();
}

Outcome ViewBinder::bind(const client::File& file, int ranks, const ViewArguments& arguments,
                         const ViewDescription& description, std::shared_ptr<const FileView>& view) {
  const auto known = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const auto& one) { return is_same(one->element(), description.element); });
  if (known != recent_.end()) {
    std::rotate(recent_.begin(), known, known + 1);
    const std::shared_ptr<const FileView>& front = recent_.front();
    // Only a description that was kept shares its trees: then the types are the same, too.
    if (&front->element().trees() == &description.element.trees() && front->disp == arguments.disp &&
        front->representation_name == arguments.representation && front->overlap == description.overlap &&
        may_be_kept(arguments) && front->etype_bytes == description.etype_bytes) {
      view = front;
      return Outcome::ok();
    }
  }
  std::optional<client::View> bound;
  if (known != recent_.end()) {
    bound = recent_.front()->bound;
  } else {
    WEIR_TRY(bound, file.view(description.element, {.writers = ranks}));
  }
  auto made = std::make_shared<FileView>(arguments.etype, arguments.filetype, *std::move(bound));
  made->disp = arguments.disp;
  made->representation_name = arguments.representation;
  made->representation = description.representation;
  made->etype_bytes = description.etype_bytes;
  if (description.overlap) {
    made->overlap = description.overlap;
    WEIR_TRY(made->whole, file.linear());
  }
  view = std::move(made);
  if (known == recent_.end()) {
    recent_.insert(recent_.begin(), view);
    if (recent_.size() > kKept) recent_.pop_back();
  } else {
    recent_.front() = view;
  }
  return Outcome::ok();
}

Result<Offset> file_extent(MPI_Datatype type, const Representation* representation) {
  WEIR_TRY(const Typemap map, decode(type, leaf_size_of(representation)));
  return map.extent;
}

}  // namespace weir::mpiio::internal
