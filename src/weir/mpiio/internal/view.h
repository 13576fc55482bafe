#pragma once

// A view as MPI has it: displacement, elementary type, file type, representation; and as the file system has it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <weir/client/file_system.h>
#include <weir/mpiio/internal/outcome.h>
#include <weir/mpiio/internal/overlap.h>
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
  std::shared_ptr<const OverlappingView>
      overlap;                        ///< If it shows bytes twice: what `bound` does not reach is read by it ...
  std::optional<client::View> whole;  ///< ... from here, byte x of the file at offset x.

  [[nodiscard]] const layout::Element& element() const { return bound.element(); }
  /// The file offset of byte y of the view; nothing if that is beyond the largest file.
  [[nodiscard]] std::optional<Offset> unmap(Offset y) const { return overlap ? overlap->unmap(y) : element().unmap(y); }
  /// Bytes of the view that come before the first that lies beyond a file of `size` bytes.
  [[nodiscard]] Offset count_below(Offset size) const {
    return overlap ? overlap->count_below(size) : element().count_below(size);
  }
  /// One past the highest byte of the file in [from, from + bytes) of the view, which are some.
  [[nodiscard]] Offset end_in_file(Offset from, Offset bytes) const;
  /// The offset in etypes that is the first beyond a file of `size` bytes.
  [[nodiscard]] Offset end_of(Offset size) const { return ceil_div(count_below(size), etype_bytes); }
  /// Bytes [0, to) are reached through `bound`.
  [[nodiscard]] bool is_bound_to(Offset to) const { return !overlap || to <= element().limit(); }
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
  layout::Element element;                         ///< Of what it shows before a byte occurs again.
  std::shared_ptr<const OverlappingView> overlap;  ///< All of it, if a byte does.
  Offset etype_bytes = 1;
  std::shared_ptr<const Representation> representation;
};
/// The element as text, for other ranks; empty if that would be too long.
std::string text_for_others(const layout::Element& element);
/// What was found out is kept with the filetype, as long as that lives.  \error MPI_ERR_ARG, MPI_ERR_TYPE,
/// MPI_ERR_UNSUPPORTED_DATAREP
Outcome describe_view(const ViewArguments& arguments, bool is_read_only, ViewDescription& description);

/// Views of one file, bound to it.  Programs set the same ones again and again, often with types that they make each
/// time: the last few are kept, which saves their binding and, by message, telling the servers.  \threadsafety One
/// thread at a time.
class ViewBinder {
 public:
  Outcome bind(const client::File& file, int ranks, const ViewArguments& arguments, const ViewDescription& description,
               std::shared_ptr<const FileView>& view);
  /// The file has another layout.
  void clear() { recent_.clear(); }

 private:
  static constexpr std::size_t kKept = 8;
  std::vector<std::shared_ptr<const FileView>> recent_;  // the last one first
};

/// Bytes of a type, and from one item to the next, in a file with this representation (null: native).
Result<Offset> file_bytes(MPI_Datatype type, const Representation* representation);
Result<Offset> file_extent(MPI_Datatype type, const Representation* representation);

}  // namespace weir::mpiio::internal
