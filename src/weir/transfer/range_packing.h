#pragma once

// How the bytes of a mapping travel for any range of a, and again and again: what a view and a subfile have in common,
// band by band.
//
// A band is a family of pieces whose loops are nested in a.  Byte k of its sequence `a` is byte k of its sequence `b`;
// a range of a is one range of k.  The message for a range is the bytes of the first band in it, then those of the
// second, ...  So two offsets say which bytes are meant, and both ends find them without lists.

#include <optional>
#include <vector>

#include <weir/transfer/plan.h>

namespace weir::transfer {

class RangePacking {
 public:
  /// Two sequences of the same bytes: `a` in offsets of a, ascending; `b` in offsets of b, in the same order.
  struct Band {
    layout::Element a;
    layout::Element b;
  };

  RangePacking();  ///< No bytes.
  RangePacking(const RangePacking&);
  RangePacking(RangePacking&&) noexcept;
  RangePacking& operator=(const RangePacking&);
  RangePacking& operator=(RangePacking&&) noexcept;
  ~RangePacking();

  /// \error kTooComplex if the mapping needs more bands than are sensible: use a window.
  static Result<RangePacking> create(const layout::Mapping& a_to_b);
  /// From the wire.  \error kInvalidArgument if a band's sequences differ in size, or its `a` does not ascend, or its
  /// `b` ends before its `a` does.
  static Result<RangePacking> create(std::vector<Band> bands);

  [[nodiscard]] const std::vector<Band>& bands() const;

  /// Bytes of the message for [range.from, range.to) of a.
  [[nodiscard]] Offset bytes(Range range) const;
  /// The smallest range of b that holds all of them; empty if there are none.
  [[nodiscard]] Range extent_b(Range range) const;
  /// The message is bytes [*, * + bytes) of a (of b), in order: no plan, no buffer.
  [[nodiscard]] std::optional<Offset> direct_a(Range range) const;
  [[nodiscard]] std::optional<Offset> direct_b(Range range) const;

  // `a.data` is the byte of a with offset `a.origin`, and so for b.
  void pack_a(Source a, Range range, std::byte* message) const;
  void unpack_a(const std::byte* message, Range range, Target a) const;
  void pack_b(Source b, Range range, std::byte* message) const;
  void unpack_b(const std::byte* message, Range range, Target b) const;

 private:
  struct Side;
  std::vector<Band> bands_;
  std::vector<Side> sides_;  // plans of each band, compiled when first used
};

}  // namespace weir::transfer
