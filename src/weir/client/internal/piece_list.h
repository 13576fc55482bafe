#pragma once

// Patterns that fit a subfile so irregularly that no plan is small: their pieces, listed one by one.

#include <memory>
#include <mutex>
#include <vector>

#include <weir/layout/mapping.h>

namespace weir::client::internal {

using layout::Range;

/// The pieces that a range of a view has in common with a subfile, in the order of the view.
///
/// Immutable.  \threadsafety Safe from any thread.
class PieceList {
 public:
  /// Covers the beginning of `range` if all of it has too many pieces.
  PieceList(const layout::Element& view, const layout::Element& subfile, Range range);

  [[nodiscard]] Range range() const { return range_; }  ///< Of the view.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] Offset bytes() const { return bytes_; }
  [[nodiscard]] Range extent() const { return extent_; }  ///< Of the subfile, from the first byte to the last.

  /// `view`: where byte range().from of the view is in memory; `subfile`: where byte 0 of the subfile is.
  void write(const std::byte* view, std::byte* subfile) const;
  void read(std::byte* view, const std::byte* subfile) const;
  void clear(std::byte* view) const;

 private:
  struct Piece {
    std::uint32_t view;  // from range_.from on
    std::uint32_t length;
    Offset subfile;
  };

  struct Run {
    std::uint32_t view;   // from range_.from on
    std::uint32_t units;  // that follow each other there
  };

  /// False if there is no room for it.
  bool add(Offset view, Offset subfile, Offset length);
  void list_in_file_order(const layout::Element& view, const layout::Element& subfile);
  void list_in_view_order(const layout::Element& view, const layout::Element& subfile);
  void pack();
  template <typename Move>
  void for_all(Move move) const;

  Range range_;
  bool is_whole_ = true;
  Offset bytes_ = 0;
  Range extent_{0, 0};
  std::vector<Piece> pieces_;
  // Short pieces are cut into units of one length, for which 4 bytes each are enough; then `pieces_` is empty.
  std::uint32_t unit_ = 0;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> places_;  // of units in the subfile, from extent_.from on
};

/// The lists used last: who comes back for the same range finds it there.
///
/// \threadsafety Safe from any thread.
class PieceLists {
 public:
  /// Of the beginning of `range`, as PieceList.
  std::shared_ptr<const PieceList> of(const layout::Element& view, const layout::Element& subfile, Range range);

 private:
  static constexpr std::size_t kMostKept = 4;

  std::mutex mutex_;
  std::vector<std::shared_ptr<const PieceList>> kept_;
  std::size_t oldest_ = 0;
};

}  // namespace weir::client::internal
