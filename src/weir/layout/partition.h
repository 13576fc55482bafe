#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <weir/layout/element.h>
#include <weir/layout/pitfalls.h>

namespace weir::layout {

/// How the file linearises an array.
enum class ArrayOrder { kC, kFortran };

/// stripe(unit=64K, over=4): round-robin blocks.
struct Stripe {
  Offset unit = 0;
  Offset over = 0;
  friend bool operator==(const Stripe&, const Stripe&) = default;
};

/// One dimension of an HPF distribution.
struct Dist {
  enum class Kind { kWhole, kBlock, kCyclic };  // *, BLOCK or BLOCK(m), CYCLIC or CYCLIC(k)
  Kind kind = Kind::kWhole;
  Offset width = 0;  ///< m or k; 0 if not given: BLOCK takes ceil(N/P), CYCLIC takes 1
  friend bool operator==(const Dist&, const Dist&) = default;
};

/// hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4]): elements in row-major order of the process grid.
struct Hpf {
  std::vector<Offset> shape;
  Offset elem = 1;
  std::vector<Dist> dist;
  std::vector<Offset> grid;
  ArrayOrder order = ArrayOrder::kC;
  friend bool operator==(const Hpf&, const Hpf&) = default;
};

/// tiles(shape=[4096,4096], elem=8, tile=[256,256], over=4): tiles, clipped at the array's edge, numbered in array
/// order and dealt round robin, each stored whole in array order.  Elements are not monotone.
struct Tiles {
  std::vector<Offset> shape;
  Offset elem = 1;
  std::vector<Offset> tile;
  Offset over = 0;
  ArrayOrder order = ArrayOrder::kC;
  friend bool operator==(const Tiles&, const Tiles&) = default;
};

/// falls(disp=2, {(0,1,6,1)} | {(2,3,6,1)} | {(4,5,6,1)}): explicit elements.
struct Explicit {
  std::vector<FallsSet> elements;
  friend bool operator==(const Explicit&, const Explicit&) = default;
};

using Description = std::variant<Stripe, Hpf, Tiles, Explicit>;

/// Displacement, period and elements: the layout of a file, or the views of all processes.
///
/// Holds the description; an element is computed when asked for, without listing the others.
/// Immutable.  \threadsafety Safe from any thread.
class Partition {
 public:
  struct Options {
    Offset disp = 0;
    /// 0: the default.  Stripe, hpf and tiles have just one possible period.  Explicit elements: the sum of their sizes
    /// if that reaches just to the last byte, as it does when they cover the period; otherwise (a view with gaps) the
    /// largest stride * count or right end + 1 of any outermost FALLS.
    Offset period = 0;
  };

  /// Checks the description.  Elements of an Explicit need neither cover the period nor be disjoint: see validate().
  static Result<Partition> create(Description description, Options options);
  static Result<Partition> create(Description description) { return create(std::move(description), Options{}); }

  [[nodiscard]] const Description& description() const noexcept { return description_; }
  [[nodiscard]] Offset disp() const noexcept { return disp_; }
  [[nodiscard]] Offset period() const noexcept { return period_; }
  [[nodiscard]] Offset default_period() const noexcept { return default_period_; }
  [[nodiscard]] Offset element_count() const noexcept { return element_count_; }

  /// \error kOutOfRange if there is no such element; what Element::create says.
  [[nodiscard]] Result<Element> element(Offset index) const;

  /// The element that holds file byte x; nothing below disp() and in gaps.  Explicit: the first that does.
  [[nodiscard]] Result<std::optional<Offset>> owner(Offset x) const;

  /// True for a layout: elements disjoint and covering the period.
  /// \error kInvalidArgument names the first byte of the file that no element or more than one holds; it is location().
  [[nodiscard]] Status validate() const;

 private:
  Partition() = default;
  Description description_;
  Offset disp_ = 0;
  Offset period_ = 0;
  Offset default_period_ = 0;
  Offset element_count_ = 0;
};

}  // namespace weir::layout
