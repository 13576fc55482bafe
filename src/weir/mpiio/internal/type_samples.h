#pragma once

// For the tests: datatypes with a list of their bytes, and random ones.
//
// Every constructor of the standard is written here a second time, as loops that list single bytes.  A Sample holds a
// datatype and its bytes, made by the same call.

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include <weir/base/text.h>
#include <weir/layout/testing/generate.h>
#include <weir/mpiio/internal/datatype.h>

namespace weir::mpiio::internal::samples {

using layout::oracle::Random;

using ByteOffsets = std::vector<Offset>;
using Ints = std::vector<int>;
using Addresses = std::vector<MPI_Aint>;

/// A type map by listing displacements.
struct Listed {
  ByteOffsets bytes;
  Offset lower = 0;
  Offset upper = 0;
  bool has_markers = false;

  [[nodiscard]] Offset extent() const { return upper - lower; }
  [[nodiscard]] bool is_nothing() const { return bytes.empty() && !has_markers; }
};

inline Listed leaf(Offset bytes) {
  Listed list{{}, 0, bytes, false};
  for (Offset i = 0; i < bytes; ++i) list.bytes.push_back(i);
  return list;
}

class Lister {
 public:
  void add(const Listed& item, Offset at) {
    if (item.is_nothing()) return;
    for (const Offset byte : item.bytes) list_.bytes.push_back(at + byte);
    if (list_.has_markers && !item.has_markers) return;
    const bool starts = is_first_ || (item.has_markers && !list_.has_markers);
    list_.lower = starts ? at + item.lower : std::min(list_.lower, at + item.lower);
    list_.upper = starts ? at + item.upper : std::max(list_.upper, at + item.upper);
    list_.has_markers = item.has_markers;
    is_first_ = false;
  }
  void add_block(const Listed& item, Offset at, Offset count) {
    for (Offset i = 0; i < count; ++i) add(item, at + i * item.extent());
  }
  Listed finish() { return std::move(list_); }

 private:
  Listed list_;
  bool is_first_ = true;
};

/// A datatype, owned, with its bytes in memory and in an external32 file.
class Sample {
 public:
  Sample(MPI_Datatype type, Listed native, Listed external, std::string text, bool owns = true)
      : native_(std::move(native)), external_(std::move(external)), text_(std::move(text)), type_(type), owns_(owns) {}
  Sample(Sample&& other) noexcept
      : native_(std::move(other.native_)),
        external_(std::move(other.external_)),
        text_(std::move(other.text_)),
        type_(other.type_),
        owns_(std::exchange(other.owns_, false)),
        has_packable_parts_(other.has_packable_parts_) {}
  Sample& operator=(Sample&&) = delete;
  ~Sample() {
    if (owns_) MPI_Type_free(&type_);
  }

  [[nodiscard]] MPI_Datatype type() const { return type_; }
  [[nodiscard]] const Listed& native() const { return native_; }
  [[nodiscard]] const Listed& listed(LeafSize how) const { return how == LeafSize::kNative ? native_ : external_; }
  [[nodiscard]] const std::string& text() const { return text_; }

  /// MPICH 4.0.2 divides by zero when it packs types that have a part of no bytes or of no extent; such are not packed
  /// here.
  [[nodiscard]] bool is_packable() const {
    return has_packable_parts_ && !native_.bytes.empty() && native_.extent() != 0;
  }
  void has_part(const Sample& part) { has_packable_parts_ = has_packable_parts_ && part.is_packable(); }

  void take_native_bounds() {
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(type_, &lower, &extent);
    native_.lower = lower;
    native_.upper = lower + extent;
  }

 private:
  Listed native_;
  Listed external_;
  std::string text_;
  MPI_Datatype type_;
  bool owns_;
  bool has_packable_parts_ = true;
};

inline std::string text_of(const std::vector<Offset>& numbers) {
  std::string text;
  for (const Offset number : numbers) text += concat(text.empty() ? "" : " ", number);
  return text;
}
template <typename T>
inline std::string text_of(const std::vector<T>& numbers) {
  return text_of(ByteOffsets(numbers.begin(), numbers.end()));
}

/// Makes a sample: `list` is called for the native and for the external32 list of the child.
inline Sample derive(const Sample& child, MPI_Datatype type, std::string text,
                     const std::function<Listed(const Listed&)>& list) {
  Sample sample{type, list(child.native()), list(child.listed(LeafSize::kExternal32)),
                concat(text, " of ", child.text())};
  sample.has_part(child);
  // Padding by alignment is the choice of the MPI, and the standard says nothing about bounds of nothing.
  if (!sample.native().has_markers || sample.native().bytes.empty()) sample.take_native_bounds();
  return sample;
}

// ---------------------------------------------------------------------------------------------------------- constructors

inline Sample basic(MPI_Datatype type, Offset native, Offset external, std::string name) {
  return {type, leaf(native), leaf(external), std::move(name), false};
}
inline Sample byte() { return basic(MPI_BYTE, 1, 1, "byte"); }
inline Sample int_type() { return basic(MPI_INT, 4, 4, "int"); }

inline Sample pair(MPI_Datatype type, Offset first, Offset first_external, Offset int_at, Offset extent,
                   std::string name) {
  Lister native;
  native.add(leaf(first), 0);
  native.add(leaf(4), int_at);
  Listed list = native.finish();
  list.upper = extent;
  return {type, list, leaf(first_external + 4), std::move(name), false};
}

inline Sample dup(const Sample& child) {
  MPI_Datatype type;
  MPI_Type_dup(child.type(), &type);
  return derive(child, type, "dup", [](const Listed& list) { return list; });
}

inline Sample contiguous(const Sample& child, int count) {
  MPI_Datatype type;
  MPI_Type_contiguous(count, child.type(), &type);
  return derive(child, type, concat("contiguous(", count, ")"), [&](const Listed& item) {
    Lister lister;
    lister.add_block(item, 0, count);
    return lister.finish();
  });
}

inline Sample vector_of(const Sample& child, int count, int block, int stride) {
  MPI_Datatype type;
  MPI_Type_vector(count, block, stride, child.type(), &type);
  return derive(child, type, concat("vector(", count, ",", block, ",", stride, ")"), [&](const Listed& item) {
    Lister lister;
    for (int i = 0; i < count; ++i) lister.add_block(item, i * stride * item.extent(), block);
    return lister.finish();
  });
}

inline Sample hvector(const Sample& child, int count, int block, MPI_Aint stride) {
  MPI_Datatype type;
  MPI_Type_create_hvector(count, block, stride, child.type(), &type);
  return derive(child, type, concat("hvector(", count, ",", block, ",", stride, ")"), [&](const Listed& item) {
    Lister lister;
    for (int i = 0; i < count; ++i) lister.add_block(item, i * stride, block);
    return lister.finish();
  });
}

inline std::function<Listed(const Listed&)> lister_of_blocks(const Ints& lengths, const Addresses& at, bool in_items) {
  return [=](const Listed& item) {
    Lister lister;
    for (std::size_t i = 0; i < at.size(); ++i) {
      lister.add_block(item, at[i] * (in_items ? item.extent() : 1), lengths[i]);
    }
    return lister.finish();
  };
}

inline Sample indexed(const Sample& child, const Ints& lengths, const Ints& at) {
  MPI_Datatype type;
  MPI_Type_indexed(static_cast<int>(at.size()), lengths.data(), at.data(), child.type(), &type);
  return derive(child, type, concat("indexed(", text_of(lengths), "; ", text_of(at), ")"),
                lister_of_blocks(lengths, Addresses(at.begin(), at.end()), true));
}

inline Sample hindexed(const Sample& child, const Ints& lengths, const Addresses& at) {
  MPI_Datatype type;
  MPI_Type_create_hindexed(static_cast<int>(at.size()), lengths.data(), at.data(), child.type(), &type);
  return derive(child, type, concat("hindexed(", text_of(lengths), "; ", text_of(at), ")"),
                lister_of_blocks(lengths, at, false));
}

inline Sample indexed_block(const Sample& child, int length, const Ints& at) {
  MPI_Datatype type;
  MPI_Type_create_indexed_block(static_cast<int>(at.size()), length, at.data(), child.type(), &type);
  return derive(child, type, concat("indexed_block(", length, "; ", text_of(at), ")"),
                lister_of_blocks(Ints(at.size(), length), Addresses(at.begin(), at.end()), true));
}

inline Sample hindexed_block(const Sample& child, int length, const Addresses& at) {
  MPI_Datatype type;
  MPI_Type_create_hindexed_block(static_cast<int>(at.size()), length, at.data(), child.type(), &type);
  return derive(child, type, concat("hindexed_block(", length, "; ", text_of(at), ")"),
                lister_of_blocks(Ints(at.size(), length), at, false));
}

inline Sample structure(const std::vector<const Sample*>& children, const Ints& lengths, const Addresses& at) {
  std::vector<MPI_Datatype> types;
  std::string text = concat("struct(", text_of(lengths), "; ", text_of(at), ")");
  Lister native;
  Lister external;
  for (std::size_t i = 0; i < children.size(); ++i) {
    types.push_back(children[i]->type());
    native.add_block(children[i]->native(), at[i], lengths[i]);
    external.add_block(children[i]->listed(LeafSize::kExternal32), at[i], lengths[i]);
    text += concat(i == 0 ? "{" : ", ", children[i]->text());
  }
  MPI_Datatype type;
  MPI_Type_create_struct(static_cast<int>(at.size()), lengths.data(), at.data(), types.data(), &type);
  Sample sample{type, native.finish(), external.finish(), text + "}"};
  for (const Sample* child : children) sample.has_part(*child);
  sample.take_native_bounds();
  return sample;
}

inline Sample resized(const Sample& child, MPI_Aint lower, MPI_Aint extent) {
  MPI_Datatype type;
  MPI_Type_create_resized(child.type(), lower, extent, &type);
  return derive(child, type, concat("resized(", lower, ",", extent, ")"), [&](Listed list) {
    list.lower = lower;
    list.upper = lower + extent;
    list.has_markers = true;
    return list;
  });
}

/// Lists the entries of an array that `is_mine` holds for, in the order in which they are stored.
inline Listed list_array(const Listed& item, const Ints& sizes, int order,
                         const std::function<bool(const Ints&)>& is_mine) {
  const int total = std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>());
  Lister lister;
  for (int entry = 0; entry < total; ++entry) {
    Ints index(sizes.size());
    int rest = entry;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      const std::size_t d = order == MPI_ORDER_C ? sizes.size() - 1 - k : k;
      index[d] = rest % sizes[d];
      rest /= sizes[d];
    }
    if (is_mine(index)) lister.add(item, entry * item.extent());
  }
  Listed list = lister.finish();
  list.lower = 0;
  list.upper = total * item.extent();
  list.has_markers = true;
  return list;
}

inline std::string order_name(int order) { return order == MPI_ORDER_C ? "C" : "Fortran"; }

inline Sample subarray(const Sample& child, const Ints& sizes, const Ints& subsizes, const Ints& starts, int order) {
  MPI_Datatype type;
  MPI_Type_create_subarray(static_cast<int>(sizes.size()), sizes.data(), subsizes.data(), starts.data(), order,
                           child.type(), &type);
  return derive(
      child, type,
      concat("subarray(", text_of(sizes), "; ", text_of(subsizes), "; ", text_of(starts), "; ", order_name(order), ")"),
      [&](const Listed& item) {
        return list_array(item, sizes, order, [&](const Ints& index) {
          for (std::size_t d = 0; d < index.size(); ++d) {
            if (index[d] < starts[d] || index[d] >= starts[d] + subsizes[d]) return false;
          }
          return true;
        });
      });
}

struct Distribution {
  Ints sizes;
  Ints kinds;
  Ints arguments;
  Ints grid;
  int order = MPI_ORDER_C;

  [[nodiscard]] int processes() const { return std::accumulate(grid.begin(), grid.end(), 1, std::multiplies<>()); }
  [[nodiscard]] int coordinate_of_owner(std::size_t d, int index) const {
    if (kinds[d] == MPI_DISTRIBUTE_NONE) return 0;
    const bool is_default = arguments[d] == MPI_DISTRIBUTE_DFLT_DARG;
    if (kinds[d] == MPI_DISTRIBUTE_BLOCK) {
      return index / (is_default ? (sizes[d] + grid[d] - 1) / grid[d] : arguments[d]);
    }
    return index / (is_default ? 1 : arguments[d]) % grid[d];
  }
  [[nodiscard]] int owner(const Ints& index) const {
    int rank = 0;
    for (std::size_t d = 0; d < grid.size(); ++d) rank = rank * grid[d] + coordinate_of_owner(d, index[d]);
    return rank;
  }
};

inline Sample darray(const Sample& child, const Distribution& dist, int rank) {
  MPI_Datatype type;
  MPI_Type_create_darray(dist.processes(), rank, static_cast<int>(dist.sizes.size()), dist.sizes.data(),
                         dist.kinds.data(), dist.arguments.data(), dist.grid.data(), dist.order, child.type(), &type);
  return derive(child, type,
                concat("darray(", rank, "; ", text_of(dist.sizes), "; ", text_of(dist.kinds), "; ",
                       text_of(dist.arguments), "; ", text_of(dist.grid), "; ", order_name(dist.order), ")"),
                [&](const Listed& item) {
                  return list_array(item, dist.sizes, dist.order,
                                    [&](const Ints& index) { return dist.owner(index) == rank; });
                });
}

inline Distribution random_distribution(Random& random, int most_dimensions, int longest) {
  Distribution dist;
  const Offset rank = random.between(1, most_dimensions);
  for (Offset d = 0; d < rank; ++d) {
    const int size = static_cast<int>(random.between(1, longest));
    const int processes = static_cast<int>(random.between(1, 3));
    const int kind = std::array{MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK,
                                MPI_DISTRIBUTE_CYCLIC}[static_cast<std::size_t>(random.between(0, 2))];
    int argument = MPI_DISTRIBUTE_DFLT_DARG;
    if (kind == MPI_DISTRIBUTE_BLOCK && random.chance(50)) {
      argument = (size + processes - 1) / processes + static_cast<int>(random.between(0, 1));
    }
    if (kind == MPI_DISTRIBUTE_CYCLIC && random.chance(60)) argument = static_cast<int>(random.between(1, 3));
    dist.sizes.push_back(size);
    dist.kinds.push_back(kind);
    dist.arguments.push_back(argument);
    dist.grid.push_back(kind == MPI_DISTRIBUTE_NONE ? 1 : processes);
  }
  dist.order = random.chance(50) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
  return dist;
}

// ---------------------------------------------------------------------------------------------------------- random types

enum class Leaves { kAll, kNoPairs };

inline Sample random_basic(Random& random, Leaves leaves = Leaves::kAll) {
  const Offset pick = random.between(0, 9);
  switch (leaves == Leaves::kNoPairs && pick >= 3 && pick <= 6 ? 9 : pick) {
    case 0: return basic(MPI_SHORT, 2, 2, "short");
    case 1: return basic(MPI_DOUBLE, 8, 8, "double");
    case 2: return basic(MPI_LONG, 8, 4, "long");
    case 3: return pair(MPI_SHORT_INT, 2, 2, 4, 8, "short_int");
    case 4: return pair(MPI_DOUBLE_INT, 8, 8, 8, 16, "double_int");
    case 5: return pair(MPI_LONG_DOUBLE_INT, 16, 16, 16, 32, "long_double_int");
    case 6: return pair(MPI_LONG_INT, 8, 4, 8, 16, "long_int");
    case 7: return byte();
    default: return int_type();
  }
}

/// Types that are legal in memory: any order, holes, overlaps, negative displacements.  With `ascending`: legal in file
/// views.
class Generator {
 public:
  Generator(Random& random, bool ascending, Leaves leaves = Leaves::kAll)
      : random_(random), ascending_(ascending), leaves_(leaves) {}

  Sample make(int depth) {
    if (depth == 0) return random_basic(random_, leaves_);
    Sample child = make(depth - 1);
    if (child.native().bytes.size() > 600) return child;
    return wrap(child, depth);
  }

 private:
  int pick(Offset low, Offset high) { return static_cast<int>(random_.between(low, high)); }

  Sample wrap(const Sample& child, int depth) {
    switch (pick(0, 11)) {
      case 0: return dup(child);
      case 1: return contiguous(child, pick(0, 4));
      case 2: return random_vector(child);
      case 3: return random_hvector(child);
      case 4: {
        const Ints lengths = random_lengths();
        return indexed(child, lengths, ascending_ ? ascending_items(lengths, 1) : any_items(lengths.size()));
      }
      case 5: {
        const Ints lengths = random_lengths();
        return hindexed(child, lengths, places(lengths, {&child}));
      }
      case 6: {
        const int length = pick(0, 2);
        const Ints lengths(static_cast<std::size_t>(pick(0, 4)), length);
        return indexed_block(child, length, ascending_ ? ascending_items(lengths, 1) : any_items(lengths.size()));
      }
      case 7: {
        const int length = pick(0, 2);
        const Ints lengths(static_cast<std::size_t>(pick(0, 4)), length);
        return hindexed_block(child, length, places(lengths, {&child}));
      }
      case 8: {
        const Sample other = make(depth - 1);
        const Ints lengths = {pick(0, 2), pick(1, 2), pick(0, 1)};
        const std::vector<const Sample*> members = {&child, &other, &child};
        return structure(members, lengths, places(lengths, members));
      }
      case 9: return random_subarray(child);
      case 10: {
        if (!child.is_packable()) return dup(child);  // Open MPI refuses arrays of nothing
        const Distribution dist = random_distribution(random_, 3, 4);
        return darray(child, dist, pick(0, dist.processes() - 1));
      }
      default:
        return ascending_ ? resized(child, 0, span(child) + pick(0, 12)) : resized(child, pick(-12, 12), pick(-12, 40));
    }
  }

  // One past the last byte of an item, at least its extent: where the next may start in a file, in both
  // representations.
  static Offset span(const Sample& sample) {
    Offset end = 1;
    for (const LeafSize how : {LeafSize::kNative, LeafSize::kExternal32}) {
      const Listed& list = sample.listed(how);
      end = std::max({end, list.extent(), list.bytes.empty() ? 0 : list.bytes.back() + 1});
    }
    return end;
  }

  // Open MPI 4.1.4 takes a step of -1 byte for "the extent".
  static Offset not_minus_one(Offset step, Offset unit) { return step * unit == -1 ? -2 : step; }

  Sample random_vector(const Sample& child) {
    const int block = pick(0, 3);
    const Offset stride = ascending_ ? block + pick(0, 3) : not_minus_one(pick(-4, 5), child.native().extent());
    return vector_of(child, pick(0, 4), block, static_cast<int>(stride));
  }

  Sample random_hvector(const Sample& child) {
    const Offset stride = ascending_ ? span(child) + pick(0, 9) : not_minus_one(pick(-40, 60), 1);
    return hvector(child, pick(0, 3), 1, stride);
  }

  Ints random_lengths() {
    Ints lengths(static_cast<std::size_t>(pick(0, 4)));
    for (int& length : lengths) length = pick(0, 3);
    return lengths;
  }

  Ints any_items(std::size_t count) {
    Ints at(count);
    for (int& one : at) one = pick(-5, 9);
    return at;
  }

  Ints ascending_items(const Ints& lengths, int gap) {
    Ints at;
    int next = pick(0, 2);
    for (const int length : lengths) {
      at.push_back(next);
      next += length + pick(0, gap);
    }
    return at;
  }

  Addresses places(const Ints& lengths, const std::vector<const Sample*>& members) {
    Addresses at;
    Offset next = ascending_ ? pick(0, 9) : 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      at.push_back(ascending_ ? next : pick(-60, 90));
      next += lengths[i] * span(*members[members.size() == 1 ? 0 : i]) + pick(0, 9);
    }
    return at;
  }

  Sample random_subarray(const Sample& child) {
    Ints sizes;
    Ints subsizes;
    Ints starts;
    for (int d = pick(1, 3); d > 0; --d) {
      sizes.push_back(pick(1, 4));
      subsizes.push_back(pick(1, sizes.back()));
      starts.push_back(pick(0, sizes.back() - subsizes.back()));
    }
    return subarray(child, sizes, subsizes, starts, random_.chance(50) ? MPI_ORDER_C : MPI_ORDER_FORTRAN);
  }

  Random& random_;
  bool ascending_;
  Leaves leaves_;
};

// ---------------------------------------------------------------------------------------------------- lists

inline bool ascends(const ByteOffsets& bytes) {
  return std::adjacent_find(bytes.begin(), bytes.end(), std::greater_equal<>()) == bytes.end();
}
inline bool repeats(const ByteOffsets& bytes) {
  return std::set<Offset>(bytes.begin(), bytes.end()).size() != bytes.size();
}

inline ByteOffsets items(const Listed& list, Offset count) {
  ByteOffsets all;
  for (Offset i = 0; i < count; ++i) {
    for (const Offset one : list.bytes) all.push_back(i * list.extent() + one);
  }
  return all;
}

}  // namespace weir::mpiio::internal::samples
