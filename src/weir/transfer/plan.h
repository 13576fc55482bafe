#pragma once

// Mappings compiled to data movement.
//
// A plan moves bytes between two address spaces, source and target.  One of them is the plan's key: ranges are given in
// it, and a plan built once serves any range and any base pointers.
//
//   gather    source: the strided side of an element (file offsets); target: the element, packed;   key: target
//   scatter   source: the element, packed; target: its strided side;                                key: source
//   copy      source: element a; target: element b of a mapping, both in their own address spaces;  key: source
//   back      source: element b; target: element a;                                                 key: target
//
// A plan of a periodic element or mapping goes on for ever.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include <weir/layout/mapping.h>

namespace weir::transfer {

using layout::Range;

namespace internal {
class Program;
/// Where the byte with offset 0 of an address space would be: a number, since nothing need be there.
using Address = std::uintptr_t;
}  // namespace internal

/// Memory that is read: `data` points at the byte with offset `origin` of the source's address space.
struct Source {
  const void* data = nullptr;
  Offset origin = 0;
};

/// Memory that is written.
struct Target {
  void* data = nullptr;
  Offset origin = 0;
};

struct RunOptions {
  int threads = 1;  ///< The range is split between so many threads; 1 runs in the caller.
  /// The target will not be read soon: write around the caches where that pays.  Unset: decided by the number of bytes.
  std::optional<bool> bypass_cache;
};

/// A flat, immutable program of loop nests.  Copies share.  \threadsafety Safe from any thread.
class Plan {
 public:
  /// \error kTooComplex if the pattern needs more families than the budget allows.
  static Result<Plan> gather(const layout::Element& element, const layout::Budget& budget = {});
  static Result<Plan> scatter(const layout::Element& element, const layout::Budget& budget = {});
  /// From a to b.
  static Result<Plan> copy(const layout::Mapping& a_to_b);
  /// From b to a, for ranges of a.
  static Result<Plan> copy_back(const layout::Mapping& a_to_b);

  /// Moves all bytes whose key offset lies in `range`.  No allocation with one thread.
  /// \pre Source and target memory hold every byte of the range and do not overlap.
  void run(Source source, Target target, Range range, const RunOptions& options = {}) const {
    // Here, since a short copy takes no longer than a call.
    const Offset length = range.to - range.from;
    const Address from = reinterpret_cast<Address>(source.data) - static_cast<Address>(source.origin);
    const Address to = reinterpret_cast<Address>(target.data) - static_cast<Address>(target.origin);
    const bool is_copy = range.from >= straight_.from && range.to <= straight_.to && length < kLeastBypass &&
                         options.threads <= 1 && !options.bypass_cache.value_or(false);
    if (!is_copy) return run_program(from, to, range, options);
    if (length > 0)
      copy_straight(from + static_cast<Address>(range.from), to + static_cast<Address>(range.from), length);
  }

  /// Bytes per period, or in all if the plan is finite.
  [[nodiscard]] Offset bytes() const noexcept;
  /// Pieces per period (or in all) that are contiguous on both sides.
  [[nodiscard]] Offset pieces() const noexcept;
  /// True if source and target offsets differ by a constant: the plan is a single memcpy for every range.
  [[nodiscard]] bool is_contiguous() const noexcept;
  /// Bytes between the first and the last byte touched in one period, source and target together.
  [[nodiscard]] Offset working_set() const noexcept;
  /// Loop nests in the program.
  [[nodiscard]] std::size_t nest_count() const noexcept;

 private:
  friend struct Packing;  // compiles plans between an element and a message
  using Address = internal::Address;

  static constexpr Offset kLeastBypass = Offset{1}
                                         << 20;  ///< Shorter ranges go through the caches unless asked otherwise.

  static constexpr Offset kLeastOwn = Offset{1} << 12;  ///< From here on our own loop is faster than memcpy.

  /// Keys of a contiguous plan, and what leads from them to either side.  Empty for other plans.
  struct Straight {
    Offset from = 0;
    Offset to = 0;
    Offset to_source = 0;
    Offset to_target = 0;
    void (*copy)(const std::byte* source, std::byte* target, Offset length) = nullptr;
  };

  explicit Plan(std::shared_ptr<const internal::Program> program);
  void run_program(Address source, Address target, Range range, const RunOptions& options) const;

  void copy_straight(Address source, Address target, Offset length) const {
    auto* from = reinterpret_cast<const std::byte*>(source + static_cast<Address>(straight_.to_source));
    auto* to = reinterpret_cast<std::byte*>(target + static_cast<Address>(straight_.to_target));
    if (length >= kLeastOwn) return straight_.copy(from, to, length);
    std::memcpy(to, from, static_cast<std::size_t>(length));
  }

  std::shared_ptr<const internal::Program> program_;
  Straight straight_;
};

}  // namespace weir::transfer
