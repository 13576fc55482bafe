#include <weir/mpiio/internal/view.h>

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

Outcome describe_view(const ViewArguments& arguments, ViewDescription& description) {
  if (arguments.disp < 0) return fail(MPI_ERR_ARG, "the displacement is ", arguments.disp);
  if (arguments.etype == MPI_DATATYPE_NULL || arguments.filetype == MPI_DATATYPE_NULL) {
    return fail(MPI_ERR_TYPE, "a type is MPI_DATATYPE_NULL");
  }
  WEIR_PASS(find_representation(arguments.representation, description.representation));
  const Representation* const representation = description.representation.get();
  const auto made = [&]() -> Status {
    WEIR_TRY(const Typemap etype, decode(arguments.etype, leaf_size_of(representation)));
    WEIR_TRY(Typemap filetype, decode(arguments.filetype, leaf_size_of(representation)));
    WEIR_TRY(description.element, view_element(arguments.disp, etype, std::move(filetype)));
    description.etype_bytes = etype.size;
    return Status::ok();
  }();
  return made.is_ok() ? Outcome::ok() : fail(MPI_ERR_TYPE, made.message());
}

Outcome bind_view(const client::File& file, int ranks, const ViewArguments& arguments,
                  const ViewDescription& description, std::shared_ptr<const FileView>& view) {
  WEIR_TRY(client::View bound, file.view(description.element, {.writers = ranks}));
  auto made = std::make_shared<FileView>(arguments.etype, arguments.filetype, std::move(bound));
  made->disp = arguments.disp;
  made->representation_name = arguments.representation;
  made->representation = description.representation;
  made->etype_bytes = description.etype_bytes;
  view = std::move(made);
  return Outcome::ok();
}

Result<Offset> file_extent(MPI_Datatype type, const Representation* representation) {
  WEIR_TRY(const Typemap map, decode(type, leaf_size_of(representation)));
  return map.extent;
}

}  // namespace weir::mpiio::internal
