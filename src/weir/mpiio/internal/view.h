#pragma once

// A view as MPI has it: displacement, elementary type, file type, representation; and as the file system has it.

#include <memory>
#include <string>

#include <weir/client/file_system.h>
#include <weir/mpiio/internal/outcome.h>
#include <weir/mpiio/internal/representation.h>

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

/// Immutable.  \threadsafety Safe from any thread.
struct FileView {
  FileView(MPI_Datatype etype_given, MPI_Datatype filetype_given, client::View bound_view)
      : etype(etype_given), filetype(filetype_given), bound(std::move(bound_view)) {}

  Offset disp = 0;
  HeldType etype;
  HeldType filetype;
  std::string representation_name = "native";
  std::shared_ptr<const Representation> representation;  ///< Null: native.
  Offset etype_bytes = 1;                                ///< In the file.
  client::View bound;

  [[nodiscard]] const layout::Element& element() const { return bound.element(); }
  /// The offset in etypes that is the first beyond a file of `size` bytes.
  [[nodiscard]] Offset end_of(Offset size) const { return ceil_div(element().count_below(size), etype_bytes); }
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
  layout::Element element;
  Offset etype_bytes = 1;
  std::shared_ptr<const Representation> representation;
};
/// The element as text, for other ranks; empty if that would be too long.
std::string text_for_others(const layout::Element& element);
/// \error MPI_ERR_ARG, MPI_ERR_TYPE, MPI_ERR_UNSUPPORTED_DATAREP
Outcome describe_view(const ViewArguments& arguments, ViewDescription& description);
Outcome bind_view(const client::File& file, int ranks, const ViewArguments& arguments,
                  const ViewDescription& description, std::shared_ptr<const FileView>& view);
/// Bytes of a type, and from one item to the next, in a file with this representation (null: native).
Result<Offset> file_bytes(MPI_Datatype type, const Representation* representation);
Result<Offset> file_extent(MPI_Datatype type, const Representation* representation);

}  // namespace weir::mpiio::internal
