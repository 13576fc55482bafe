#pragma once

// Elements that fit so irregularly that no plan is small: their pieces, listed one by one.

#include <memory>
#include <mutex>
#include <vector>

#include <weir/layout/mapping.h>

namespace weir::transfer::internal {

using layout::Range;

/// The pieces that a range of element a has in common with element b, in the order of a.
///
/// Immutable.  \threadsafety Safe from any thread.
class PieceList {
 public:
  /// Covers the beginning of `range` if all of it has too many pieces.
  PieceList(const layout::Element& a, const layout::Element& b, Range range);

  [[nodiscard]] Range range() const { return range_; }  ///< Of a.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] Offset bytes() const { return bytes_; }
  [[nodiscard]] Range extent() const { return extent_; }  ///< Of b, from the first byte to the last.

  /// `a`: where byte range().from of a is in memory; `b`: where byte extent().from of b is.
  void copy_to_b(const std::byte* a, std::byte* b) const;
  void copy_to_a(const std::byte* b, std::byte* a) const;
  void clear_a(std::byte* a) const;
  /// The bytes of all pieces, one after the other.
  void pack_a(const std::byte* a, std::byte* message) const;
  void unpack_a(const std::byte* message, std::byte* a) const;

 private:
  struct Piece {
    std::uint32_t a;  // from range_.from on
    std::uint32_t length;
    Offset b;
  };

  struct Run {
    std::uint32_t a;      // from range_.from on
    std::uint32_t units;  // that follow each other there
  };

  /// False if there is no room for it.
  bool add(Offset a, Offset b, Offset length);
  void list_in_file_order(const layout::Element& a, const layout::Element& b);
  void list_in_order_of_a(const layout::Element& a, const layout::Element& b);
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
  std::vector<std::uint32_t> places_;  // of units in b, from extent_.from on
};

/// The lists used last: who comes back for the same range finds it there.
///
/// \threadsafety Safe from any thread.
class PieceLists {
 public:
  /// Of the beginning of `range`, as PieceList.
  std::shared_ptr<const PieceList> of(const layout::Element& a, const layout::Element& b, Range range);

 private:
  static constexpr std::size_t kMostKept = 4;

  std::mutex mutex_;
  std::vector<std::shared_ptr<const PieceList>> kept_;
  std::size_t oldest_ = 0;
};

}  // namespace weir::transfer::internal
