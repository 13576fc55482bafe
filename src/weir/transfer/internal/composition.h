#pragma once

// Plans between memory in pieces and an element b: the map of the memory composed with that of a route, so that no
// buffer lies in between.

#include <mutex>
#include <optional>

#include <weir/transfer/route.h>

namespace weir::transfer::internal {

/// The last plan of one direction is kept, since programs use the same memory again and again.
///
/// \threadsafety Safe from any thread.
class Composition {
 public:
  /// A plan whose key is its source, the memory or b, and what is added to its offsets of b.
  struct Composed {
    Plan plan;
    Offset shift_b = 0;
  };
  /// See Route::step().
  std::optional<Composed> plan_for(const layout::Element& a, const layout::Element& b, Range range,
                                   const layout::Element& memory, Route::Direction direction, Route::Compose when);

 private:
  /// All that a plan depends on, besides the memory.
  struct Key {
    Offset disp = 0;   // of a, with the whole periods before the range, less whole periods of b
    Offset first = 0;  // byte of a's period
    Offset bytes = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Entry {
    Key key;
    std::optional<layout::Element> memory;
    std::optional<Plan> plan;
    int uses = 0;
  };
  static Result<Plan> compose(const layout::Element& a, const layout::Element& b, const Key& key,
                              const layout::Element& memory, Route::Direction direction);

  std::mutex mutex_;
  Entry to_b_;
  Entry to_a_;
};

}  // namespace weir::transfer::internal
