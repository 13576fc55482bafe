#include <weir/mpiio/internal/view.h>

#include <mutex>

#include <weir/mpiio/internal/datatype.h>
#include <weir/mpiio/internal/errors.h>
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
    WEIR_RETURN_IF_ERROR(from_mpi(PMPI_Type_size_x(type, &size), "MPI_Type_size"));
    return static_cast<Offset>(size);
  }
  WEIR_TRY(const Typemap map, decode(type, leaf_size_of(representation)));
  return map.size;
}

namespace {

Status decode_view(const ViewArguments& arguments, bool is_read_only, ViewDescription& description) {
  const Representation* const representation = description.representation.get();
  WEIR_TRY(const Typemap etype, decode(arguments.etype, leaf_size_of(representation)));
  WEIR_TRY(const Typemap filetype, decode(arguments.filetype, leaf_size_of(representation)));
  description.view.etype_bytes = etype.size;
  const Result<layout::Element> element = view_element(arguments.disp, etype, filetype);
  if (element.is_ok()) description.view.element = *element;
  if (!has_overlaps(filetype, element) || (!is_read_only && element.is_ok())) return element.status();
  WEIR_TRY(pario::OverlappingView overlap, overlapping_view(arguments.disp, etype, filetype));
  if (!is_read_only) {
    return invalid_argument(
        concat(element.status().message(), "; filetypes that overlap are for files opened with MPI_MODE_RDONLY"));
  }
  description.view.overlap = std::make_shared<const pario::OverlappingView>(std::move(overlap));
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

}  // namespace

// Etypes that the program makes may be others of the same number, unless they are the filetype itself.
bool is_kept_with_type(const ViewArguments& arguments) {
  return !is_predefined(arguments.filetype) &&
         (arguments.etype == arguments.filetype || is_predefined(arguments.etype));
}

Status describe_view(const ViewArguments& arguments, bool is_read_only, ViewDescription& description) {
  if (arguments.disp < 0) return fail(MPI_ERR_ARG, "the displacement is ", arguments.disp);
  if (arguments.etype == MPI_DATATYPE_NULL || arguments.filetype == MPI_DATATYPE_NULL) {
    return fail(MPI_ERR_TYPE, "a type is MPI_DATATYPE_NULL");
  }
  WEIR_RETURN_IF_ERROR(find_representation(arguments.representation, description.representation));
  const bool is_kept = is_kept_with_type(arguments);
  if (is_kept) {
    const std::lock_guard lock(last_views_mutex);
    const LastView* const last = last_view(arguments.filetype);
    if (last != nullptr && is_same(*last, arguments, is_read_only, description.representation)) {
      description = last->description;
      return Status::ok();
    }
  }
  const Status made = decode_view(arguments, is_read_only, description);
  if (!made.is_ok()) return fail(MPI_ERR_TYPE, made.message());
  if (is_kept) keep_view(arguments, is_read_only, description);
  return Status::ok();
}

Result<Offset> file_extent(MPI_Datatype type, const Representation* representation) {
  WEIR_TRY(const Typemap map, decode(type, leaf_size_of(representation)));
  return map.extent;
}

}  // namespace weir::mpiio::internal
