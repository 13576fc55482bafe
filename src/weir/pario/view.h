#pragma once

// A view of a parallel file: the bytes that a rank sees, in units (etypes) that its offsets count.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <weir/client/file_system.h>
#include <weir/pario/overlap.h>

namespace weir::pario {

/// What a rank sees of a file.
struct ViewDescription {
  layout::Element element;                           ///< Of what it shows before a byte occurs again.
  Offset etype_bytes = 1;                            ///< The unit of offsets.
  std::shared_ptr<const OverlappingView> overlap{};  ///< All of it, if a byte occurs again.  For reading only.
};

/// The same, bound to a file.  Immutable.  \threadsafety Safe from any thread.
struct View {
  client::View bound;
  Offset etype_bytes = 1;
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

/// The element as text, for other ranks; empty if that would be too long.
std::string text_for_others(const layout::Element& element);

/// Views of one file, bound to it.  Programs set the same ones again and again: the last few are kept, which saves their
/// binding and, by message, telling the servers.  \threadsafety One thread at a time.
class ViewBinder {
 public:
  Result<std::shared_ptr<const View>> bind(const client::File& file, int ranks, const ViewDescription& description);
  /// The file has another layout.
  void clear() { recent_.clear(); }

 private:
  static constexpr std::size_t kKept = 8;
  std::vector<std::shared_ptr<const View>> recent_;  // the last one first
};

}  // namespace weir::pario
