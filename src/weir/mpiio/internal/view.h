#pragma once

// A view as MPI has it: displacement, elementary type, file type, representation.

#include <memory>
#include <string>

#include <weir/mpiio/internal/errors.h>
#include <weir/mpiio/internal/representation.h>
#include <weir/pario/view.h>

namespace weir::mpiio::internal {

bool is_predefined(MPI_Datatype type);

/// A copy of a datatype that stays when the program frees its own.
class HeldType {
 public:
  HeldType() = default;
  explicit HeldType(MPI_Datatype type);
  HeldType(const HeldType&) = delete;
  HeldType& operator=(const HeldType&) = delete;
  ~HeldType();

  /// For the program, which frees it.  Predefined types are given as they are.
  [[nodiscard]] MPI_Datatype give() const;
  [[nodiscard]] MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_BYTE;
  bool is_copy_ = false;
};

/// What MPI_File_set_view is given.
struct ViewArguments {
  Offset disp = 0;
  MPI_Datatype etype = MPI_BYTE;
  MPI_Datatype filetype = MPI_BYTE;
  std::string representation = "native";
};

/// What they mean.
struct ViewDescription {
  pario::ViewDescription view;
  std::shared_ptr<const Representation> representation;  ///< Null: native.
};

/// What programs are told of their view, and how their memory becomes bytes of the file.  Immutable.
/// \threadsafety Safe from any thread.
struct ViewTypes {
  ViewTypes() = default;
  ViewTypes(const ViewArguments& arguments, const ViewDescription& description)
      : disp(arguments.disp),
        etype(arguments.etype),
        filetype(arguments.filetype),
        representation_name(arguments.representation),
        representation(description.representation),
        element(description.view.element) {}

  Offset disp = 0;
  HeldType etype;
  HeldType filetype;
  std::string representation_name = "native";
  std::shared_ptr<const Representation> representation;  ///< Null: native.
  layout::Element element;
};

/// What was found out is kept with the filetype, as long as that lives.  \error MPI_ERR_ARG, MPI_ERR_TYPE,
/// MPI_ERR_UNSUPPORTED_DATAREP
Status describe_view(const ViewArguments& arguments, bool is_read_only, ViewDescription& description);

/// Whether two descriptions that share an element were made of the same arguments.
bool is_kept_with_type(const ViewArguments& arguments);

/// Bytes of a type, and from one item to the next, in a file with this representation (null: native).
Result<Offset> file_bytes(MPI_Datatype type, const Representation* representation);
Result<Offset> file_extent(MPI_Datatype type, const Representation* representation);

}  // namespace weir::mpiio::internal
