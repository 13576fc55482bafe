#include <weir/mpiio/internal/datatype.h>

// Every constructor of the standard is written here a second time, as loops that list single bytes.  A Sample holds a datatype and
// its bytes, made by the same call; what decode() says is compared with the list, and the list with what MPI_Pack does.

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing.h>
#include <weir/layout/internal/generate.h>
#include <weir/layout/internal/oracle.h>
#include <weir/mpiio/internal/memory_map.h>

namespace weir::mpiio::internal {
namespace {

using layout::Element;
using layout::oracle::Random;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

using Bytes = std::vector<Offset>;
using Ints = std::vector<int>;
using Addresses = std::vector<MPI_Aint>;

/// A type map by listing displacements.
struct Listed {
  Bytes bytes;
  Offset lower = 0;
  Offset upper = 0;
  bool has_markers = false;

  [[nodiscard]] Offset extent() const { return upper - lower; }
  [[nodiscard]] bool is_nothing() const { return bytes.empty() && !has_markers; }
};

Listed leaf(Offset bytes) {
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

  /// MPICH 4.0.2 divides by zero when it packs types that have a part of no bytes or of no extent; such are not packed here.
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

std::string text_of(const std::vector<Offset>& numbers) {
  std::string text;
  for (const Offset number : numbers) text += concat(text.empty() ? "" : " ", number);
  return text;
}
template <typename T>
std::string text_of(const std::vector<T>& numbers) {
  return text_of(Bytes(numbers.begin(), numbers.end()));
}

/// Makes a sample: `list` is called for the native and for the external32 list of the child.
Sample derive(const Sample& child, MPI_Datatype type, std::string text,
              const std::function<Listed(const Listed&)>& list) {
  Sample sample{type, list(child.native()), list(child.listed(LeafSize::kExternal32)),
                concat(text, " of ", child.text())};
  sample.has_part(child);
  // Padding by alignment is the choice of the MPI, and the standard says nothing about bounds of nothing.
  if (!sample.native().has_markers || sample.native().bytes.empty()) sample.take_native_bounds();
  return sample;
}

// ---------------------------------------------------------------------------------------------------------- constructors

Sample basic(MPI_Datatype type, Offset native, Offset external, std::string name) {
  return {type, leaf(native), leaf(external), std::move(name), false};
}
Sample byte() { return basic(MPI_BYTE, 1, 1, "byte"); }
Sample int_type() { return basic(MPI_INT, 4, 4, "int"); }

Sample pair(MPI_Datatype type, Offset first, Offset first_external, Offset int_at, Offset extent, std::string name) {
  Lister native;
  native.add(leaf(first), 0);
  native.add(leaf(4), int_at);
  Listed list = native.finish();
  list.upper = extent;
  return {type, list, leaf(first_external + 4), std::move(name), false};
}

Sample dup(const Sample& child) {
  MPI_Datatype type;
  MPI_Type_dup(child.type(), &type);
  return derive(child, type, "dup", [](const Listed& list) { return list; });
}

Sample contiguous(const Sample& child, int count) {
  MPI_Datatype type;
  MPI_Type_contiguous(count, child.type(), &type);
  return derive(child, type, concat("contiguous(", count, ")"), [&](const Listed& item) {
    Lister lister;
    lister.add_block(item, 0, count);
    return lister.finish();
  });
}

Sample vector_of(const Sample& child, int count, int block, int stride) {
  MPI_Datatype type;
  MPI_Type_vector(count, block, stride, child.type(), &type);
  return derive(child, type, concat("vector(", count, ",", block, ",", stride, ")"), [&](const Listed& item) {
    Lister lister;
    for (int i = 0; i < count; ++i) lister.add_block(item, i * stride * item.extent(), block);
    return lister.finish();
  });
}

Sample hvector(const Sample& child, int count, int block, MPI_Aint stride) {
  MPI_Datatype type;
  MPI_Type_create_hvector(count, block, stride, child.type(), &type);
  return derive(child, type, concat("hvector(", count, ",", block, ",", stride, ")"), [&](const Listed& item) {
    Lister lister;
    for (int i = 0; i < count; ++i) lister.add_block(item, i * stride, block);
    return lister.finish();
  });
}

std::function<Listed(const Listed&)> lister_of_blocks(const Ints& lengths, const Addresses& at, bool in_items) {
  return [=](const Listed& item) {
    Lister lister;
    for (std::size_t i = 0; i < at.size(); ++i) {
      lister.add_block(item, at[i] * (in_items ? item.extent() : 1), lengths[i]);
    }
    return lister.finish();
  };
}

Sample indexed(const Sample& child, const Ints& lengths, const Ints& at) {
  MPI_Datatype type;
  MPI_Type_indexed(static_cast<int>(at.size()), lengths.data(), at.data(), child.type(), &type);
  return derive(child, type, concat("indexed(", text_of(lengths), "; ", text_of(at), ")"),
                lister_of_blocks(lengths, Addresses(at.begin(), at.end()), true));
}

Sample hindexed(const Sample& child, const Ints& lengths, const Addresses& at) {
  MPI_Datatype type;
  MPI_Type_create_hindexed(static_cast<int>(at.size()), lengths.data(), at.data(), child.type(), &type);
  return derive(child, type, concat("hindexed(", text_of(lengths), "; ", text_of(at), ")"),
                lister_of_blocks(lengths, at, false));
}

Sample indexed_block(const Sample& child, int length, const Ints& at) {
  MPI_Datatype type;
  MPI_Type_create_indexed_block(static_cast<int>(at.size()), length, at.data(), child.type(), &type);
  return derive(child, type, concat("indexed_block(", length, "; ", text_of(at), ")"),
                lister_of_blocks(Ints(at.size(), length), Addresses(at.begin(), at.end()), true));
}

Sample hindexed_block(const Sample& child, int length, const Addresses& at) {
  MPI_Datatype type;
  MPI_Type_create_hindexed_block(static_cast<int>(at.size()), length, at.data(), child.type(), &type);
  return derive(child, type, concat("hindexed_block(", length, "; ", text_of(at), ")"),
                lister_of_blocks(Ints(at.size(), length), at, false));
}

Sample structure(const std::vector<const Sample*>& children, const Ints& lengths, const Addresses& at) {
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

Sample resized(const Sample& child, MPI_Aint lower, MPI_Aint extent) {
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
Listed list_array(const Listed& item, const Ints& sizes, int order, const std::function<bool(const Ints&)>& is_mine) {
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

std::string order_name(int order) { return order == MPI_ORDER_C ? "C" : "Fortran"; }

Sample subarray(const Sample& child, const Ints& sizes, const Ints& subsizes, const Ints& starts, int order) {
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

Sample darray(const Sample& child, const Distribution& dist, int rank) {
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

Distribution random_distribution(Random& random, int most_dimensions, int longest) {
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

Sample random_basic(Random& random) {
  switch (random.between(0, 9)) {
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

/// Types that are legal in memory: any order, holes, overlaps, negative displacements.  With `ascending`: legal in file views.
class Generator {
 public:
  Generator(Random& random, bool ascending) : random_(random), ascending_(ascending) {}

  Sample make(int depth) {
    if (depth == 0) return random_basic(random_);
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

  // One past the last byte of an item, at least its extent: where the next may start in a file, in both representations.
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
};

// ---------------------------------------------------------------------------------------------------------------- checks

bool ascends(const Bytes& bytes) {
  return std::adjacent_find(bytes.begin(), bytes.end(), std::greater_equal<>()) == bytes.end();
}
bool repeats(const Bytes& bytes) { return std::set<Offset>(bytes.begin(), bytes.end()).size() != bytes.size(); }

Bytes items(const Listed& list, Offset count) {
  Bytes all;
  for (Offset i = 0; i < count; ++i) {
    for (const Offset one : list.bytes) all.push_back(i * list.extent() + one);
  }
  return all;
}

Bytes bytes_of(const Typemap& map) {
  Bytes bytes = layout::oracle::expand(map.falls);
  for (Offset& one : bytes) one += map.origin;
  return bytes;
}

void expect_typemap(const Result<Typemap>& map, const Listed& list) {
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ(map->size, static_cast<Offset>(list.bytes.size()));
  EXPECT_EQ(map->lower_bound, list.lower);
  EXPECT_EQ(map->extent, list.extent());
  if (map->shape.is_ok()) {
    ASSERT_THAT(layout::check(map->falls), IsOk());
    ASSERT_EQ(bytes_of(*map), list.bytes);
  } else {
    EXPECT_TRUE(repeats(list.bytes)) << map->shape.message();
  }
  EXPECT_EQ(map->is_monotone, ascends(list.bytes));
  if (list.bytes.empty()) return;
  const auto [low, high] = std::minmax_element(list.bytes.begin(), list.bytes.end());
  EXPECT_EQ(map->origin, *low);
  EXPECT_EQ(map->true_extent, *high + 1 - *low);
  EXPECT_EQ(map->is_contiguous(), ascends(list.bytes) && map->true_extent == map->size);
}

void expect_memory(const Typemap& map, const Listed& list) {
  for (const Offset count : {0, 1, 2, 5}) {
    SCOPED_TRACE(concat("count ", count));
    const Bytes expected = items(list, count);
    const auto memory = memory_map(count, map);
    ASSERT_THAT(memory, IsOk());
    EXPECT_EQ(memory->bytes, static_cast<Offset>(expected.size()));
    ASSERT_EQ(memory->direct.is_ok(), !repeats(expected)) << memory->direct.message();
    if (!memory->direct.is_ok()) continue;
    Bytes found;
    for (Offset k = 0; k < memory->bytes; ++k)
      found.push_back(memory->shift + memory->element.unmap(k).value_or(-kMaxBytes));
    ASSERT_EQ(found, expected);
    const bool in_one =
        ascends(expected) && (expected.empty() || expected.back() - expected.front() + 1 == memory->bytes);
    EXPECT_EQ(memory->is_contiguous, in_one);
  }
}

void expect_view(const Typemap& map, const Listed& list) {
  constexpr Offset kDisp = 7;
  const auto etype = decode(MPI_BYTE, LeafSize::kNative);
  ASSERT_THAT(etype, IsOk());
  const auto view = view_element(kDisp, *etype, map);
  if (list.bytes.empty()) {
    ASSERT_THAT(view, IsOk());
    EXPECT_TRUE(view->is_empty());
    return;
  }
  const bool legal = list.extent() > 0 && ascends(list.bytes) && list.bytes.front() >= 0;
  ASSERT_EQ(view.is_ok(), legal) << view.status().message();
  if (!legal) return;
  Bytes expected = items(list, 40);  // so many that items that interleave for ever would meet
  if (repeats(expected)) {           // then there is only the first
    expected = list.bytes;
    EXPECT_EQ(view->limit(), static_cast<Offset>(expected.size()));
  }
  for (std::size_t k = 0; k < expected.size(); ++k) {
    ASSERT_EQ(view->unmap(static_cast<Offset>(k)), kDisp + expected[k]) << "byte " << k;
  }
}

/// The displacements of the bytes that MPI_Pack takes, in its order.
Bytes packed_by_mpi(const Sample& sample) {
  const Bytes& bytes = sample.native().bytes;
  if (bytes.empty()) return {};
  const auto [low, high] = std::minmax_element(bytes.begin(), bytes.end());
  const Offset base = *low;
  MPI_Datatype type = sample.type();
  MPI_Type_commit(&type);
  int room = 0;
  MPI_Pack_size(1, type, MPI_COMM_SELF, &room);
  Bytes found(bytes.size(), base);
  for (const int shift : {0, 8, 16}) {  // each byte tells a part of where it lies
    std::vector<unsigned char> memory(static_cast<std::size_t>(*high - base + 1));
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<unsigned char>(i >> shift);
    std::vector<unsigned char> packed(static_cast<std::size_t>(room));
    int position = 0;
    MPI_Pack(memory.data() - base, 1, type, packed.data(), room, &position, MPI_COMM_SELF);
    EXPECT_EQ(position, static_cast<int>(bytes.size()));
    for (std::size_t k = 0; k < found.size(); ++k) found[k] += Offset{packed[k]} << shift;
  }
  return found;
}

void expect_all(const Sample& sample) {
  SCOPED_TRACE(sample.text());
  for (const LeafSize how : {LeafSize::kNative, LeafSize::kExternal32}) {
    SCOPED_TRACE(how == LeafSize::kNative ? "native" : "external32");
    const auto map = decode(sample.type(), how);
    ASSERT_NO_FATAL_FAILURE(expect_typemap(map, sample.listed(how)));
    ASSERT_NO_FATAL_FAILURE(expect_view(*map, sample.listed(how)));
    ASSERT_NO_FATAL_FAILURE(expect_memory(*map, sample.listed(how)));
  }
}

Typemap decoded(MPI_Datatype type) {
  auto map = decode(type, LeafSize::kNative);
  EXPECT_THAT(map, IsOk());
  return map.is_ok() ? *std::move(map) : Typemap{};
}

Offset nodes(const Sample& sample) { return layout::node_count(decoded(sample.type()).falls); }

// ----------------------------------------------------------------------------------------------------------------- cases

class RandomDatatypeTest : public ::testing::TestWithParam<bool> {};

TEST_P(RandomDatatypeTest, AgreeWithListsOfBytesAndWithPack) {
  constexpr int kCases = 3000;
  int packed = 0;
  int different = 0;
  std::string first_difference;
  for (int seed = 0; seed < kCases; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    Random random(static_cast<std::uint64_t>(seed));
    const Sample sample = Generator(random, GetParam()).make(static_cast<int>(random.between(0, 5)));
    if (sample.native().bytes.size() > 4000) continue;
    ASSERT_NO_FATAL_FAILURE(expect_all(sample));
    if (!sample.is_packable()) continue;
    ++packed;
    if (packed_by_mpi(sample) == sample.native().bytes) continue;
    if (different++ == 0) first_difference = concat("seed ", seed, ": ", sample.text());
  }
  EXPECT_GT(packed, kCases / 3);
  EXPECT_EQ(different, 0) << "MPI_Pack takes other bytes: " << first_difference;
}

INSTANTIATE_TEST_SUITE_P(MemoryAndFile, RandomDatatypeTest, ::testing::Values(false, true),
                         [](const auto& param) { return param.param ? "Ascending" : "Any"; });

TEST(DatatypeTest, BasicTypesAndPairs) {
  expect_all(byte());
  expect_all(basic(MPI_WCHAR, 4, 2, "wchar"));
  expect_all(basic(MPI_LONG_DOUBLE, 16, 16, "long double"));
  expect_all(basic(MPI_C_DOUBLE_COMPLEX, 16, 16, "double complex"));
  expect_all(basic(MPI_LOGICAL, 4, 4, "logical"));
  expect_all(basic(MPI_OFFSET, 8, 8, "offset"));
  expect_all(basic(MPI_2INT, 8, 8, "2int"));
  expect_all(pair(MPI_FLOAT_INT, 4, 4, 4, 8, "float_int"));
  expect_all(pair(MPI_DOUBLE_INT, 8, 8, 8, 16, "double_int"));
  expect_all(pair(MPI_LONG_INT, 8, 4, 8, 16, "long_int"));
  expect_all(pair(MPI_SHORT_INT, 2, 2, 4, 8, "short_int"));
  expect_all(pair(MPI_LONG_DOUBLE_INT, 16, 16, 16, 32, "long_double_int"));
}

TEST(DatatypeTest, FortranTypesByPrecisionAndRange) {
  MPI_Datatype type;
  MPI_Type_create_f90_real(15, 307, &type);
  const Sample real = basic(type, 8, 8, "f90_real(15,307)");
  expect_all(real);
  expect_all(vector_of(real, 3, 1, 2));
  MPI_Type_create_f90_complex(6, 37, &type);
  expect_all(basic(type, 8, 8, "f90_complex(6,37)"));
  MPI_Type_create_f90_integer(9, &type);
  expect_all(basic(type, 4, 4, "f90_integer(9)"));
  MPI_Type_create_f90_real(6, MPI_UNDEFINED, &type);
  expect_all(basic(type, 4, 4, "f90_real(6,-)"));
}

TEST(DatatypeTest, RegularTypesCostTheSameWhateverTheirSize) {
  constexpr int kLarge = 1 << 20;
  MPI_Datatype type;
  const std::array sizes{kLarge, kLarge};
  const std::array subsizes{kLarge, 1};
  const std::array starts{0, 12345};
  MPI_Type_create_subarray(2, sizes.data(), subsizes.data(), starts.data(), MPI_ORDER_C, MPI_DOUBLE, &type);
  const Typemap map = decoded(type);
  EXPECT_EQ(layout::node_count(map.falls), 1);
  const auto view = view_element(0, decoded(MPI_DOUBLE), map);
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->unmap(8 * Offset{kLarge - 1}), 8 * (Offset{kLarge} * (kLarge - 1) + 12345));
  EXPECT_EQ(view->period(), 8 * Offset{kLarge} * kLarge);
  MPI_Type_free(&type);
}

TEST(DatatypeTest, NodesOfRegularTypes) {
  EXPECT_EQ(nodes(contiguous(int_type(), 1000)), 1);
  EXPECT_EQ(nodes(vector_of(int_type(), 1000, 2, 5)), 1);
  EXPECT_EQ(nodes(hvector(vector_of(int_type(), 10, 2, 5), 7, 1, 1000)), 2);
  EXPECT_EQ(nodes(subarray(int_type(), {9, 9, 9, 9}, {3, 4, 5, 6}, {1, 2, 3, 0}, MPI_ORDER_C)), 3);
  EXPECT_EQ(nodes(subarray(int_type(), {9, 9, 9, 9}, {3, 4, 5, 6}, {1, 2, 3, 0}, MPI_ORDER_FORTRAN)), 3);
  EXPECT_EQ(nodes(indexed_block(int_type(), 1, {0, 3, 6, 9, 12, 15})), 1);
  EXPECT_EQ(nodes(contiguous(pair(MPI_DOUBLE_INT, 8, 8, 8, 16, "double_int"), 1000)), 1);
  const Distribution cyclic{{64, 64}, {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC}, {4, 4}, {4, 4}, MPI_ORDER_C};
  EXPECT_EQ(nodes(darray(int_type(), cyclic, 5)), 2);
}

TEST(DatatypeTest, DarrayViewsOfAllProcessesCoverTheArrayOnce) {
  for (int seed = 0; seed < 300; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const Distribution dist = random_distribution(random, 3, 9);
    SCOPED_TRACE(concat("seed ", seed));
    const auto entries =
        static_cast<std::size_t>(std::accumulate(dist.sizes.begin(), dist.sizes.end(), 4, std::multiplies<>()));
    std::vector<int> seen(entries);
    for (int rank = 0; rank < dist.processes(); ++rank) {
      const Sample sample = darray(int_type(), dist, rank);
      const auto view = view_element(0, decoded(MPI_INT), decoded(sample.type()));
      ASSERT_THAT(view, IsOk());
      ASSERT_EQ(view->period(), static_cast<Offset>(entries));
      for (Offset y = 0; y < view->size(); ++y) ++seen[static_cast<std::size_t>(*view->unmap(y))];
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(entries));
  }
}

TEST(DatatypeTest, ManyIrregularPieces) {
  constexpr int kPieces = 175'000;
  Random random(1);
  Addresses at;
  MPI_Aint next = 0;
  for (int i = 0; i < kPieces; ++i) {
    at.push_back(next);
    next += 4 * random.between(2, 50);
  }
  MPI_Datatype type;
  MPI_Type_create_hindexed_block(kPieces, 1, at.data(), MPI_INT, &type);
  const Typemap map = decoded(type);
  EXPECT_LE(layout::node_count(map.falls), kPieces);
  const auto view = view_element(0, decoded(MPI_INT), map);
  ASSERT_THAT(view, IsOk());
  for (int i = 0; i < kPieces; i += 997) ASSERT_EQ(view->unmap(4 * i), at[static_cast<std::size_t>(i)]);
  MPI_Type_free(&type);
}

TEST(DatatypeTest, SharedMembersDoNotMultiplyTheWork) {
  MPI_Datatype nested;
  MPI_Type_dup(MPI_INT, &nested);
#if defined(OMPI_MAJOR_VERSION)
  constexpr int kLevels =
      10;  // Open MPI gives a new handle for each member, so that nobody can see that they are the same
#else
  constexpr int kLevels = 40;  // 2^40 leaves if each member were decoded for itself
#endif
  for (int level = 0; level < kLevels; ++level) {
    const std::array lengths{1, 0, 1};
    const std::array<MPI_Aint, 3> at{0, 0, 0};
    const std::array types{nested, MPI_INT, nested};
    MPI_Datatype next;
    const std::array one{1, 0, 0};
    MPI_Type_create_struct(3, level < 4 ? lengths.data() : one.data(), at.data(), types.data(), &next);
    MPI_Type_free(&nested);
    nested = next;
  }
  EXPECT_EQ(decoded(nested).size, 4 * 16);
  MPI_Type_free(&nested);
}

TEST(DatatypeTest, DeepNestingOfBasicSteps) {
  std::vector<Sample> chain;
  chain.push_back(dup(int_type()));
  for (int level = 0; level < 500; ++level) {
    chain.push_back(level % 3 == 0   ? contiguous(chain.back(), 1)
                    : level % 3 == 1 ? hindexed(chain.back(), {1}, {level % 2})
                                     : resized(chain.back(), 0, 2000));
  }
  expect_all(chain.back());
}

int deleted_attributes = 0;
int count_deleted(MPI_Datatype, int, void*, void*) {
  ++deleted_attributes;
  return MPI_SUCCESS;
}

TEST(DatatypeTest, DecodingKeepsNoHandles) {
  int key = 0;
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, count_deleted, &key, nullptr);
  MPI_Datatype inner;
  MPI_Type_vector(3, 1, 2, MPI_INT, &inner);
  MPI_Type_set_attr(inner, key, nullptr);
  MPI_Datatype outer;
  MPI_Type_contiguous(3, inner, &outer);
  deleted_attributes = 0;
  MPI_Type_free(&inner);
  decoded(outer);
  MPI_Type_free(&outer);
  EXPECT_EQ(deleted_attributes, 1);
  MPI_Type_free_keyval(&key);
}

TEST(DatatypeTest, LongWaysBackwardsAndRepeatedBytesArePacked) {
  const Sample backwards = vector_of(int_type(), 1000, 1, -1);
  const auto listed = memory_map(1, decoded(backwards.type()));
  ASSERT_THAT(listed, IsOk());
  ASSERT_THAT(listed->direct, IsOk());
  EXPECT_EQ(listed->shift + *listed->element.unmap(0), 0);
  EXPECT_EQ(listed->shift + *listed->element.unmap(3999), -4 * 999 + 3);

  MPI_Datatype type;
  MPI_Type_vector(1 << 20, 1, -1, MPI_INT, &type);
  const auto longer = memory_map(1, decoded(type));
  MPI_Type_free(&type);
  ASSERT_THAT(longer, IsOk());
  EXPECT_EQ(longer->bytes, Offset{4} << 20);
  EXPECT_THAT(longer->direct, StatusIs(ErrorCode::kTooComplex, HasSubstr("backwards")));

  const Sample same = hvector(int_type(), 3, 1, 0);
  const auto repeated = memory_map(2, decoded(same.type()));
  ASSERT_THAT(repeated, IsOk());
  EXPECT_EQ(repeated->bytes, 24);
  EXPECT_THAT(repeated->direct, StatusIs(ErrorCode::kInvalidArgument, HasSubstr("stride of 0")));
}

TEST(DatatypeTest, ViewsThatTheStandardForbids) {
  const Typemap one_int = decoded(MPI_INT);
  const auto refused = [&](const Sample& filetype) {
    return view_element(0, one_int, decoded(filetype.type())).status();
  };
  EXPECT_THAT(view_element(-1, one_int, one_int),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("displacement is negative")));
  EXPECT_THAT(view_element(0, decoded(contiguous(byte(), 0).type()), one_int),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("etype has no bytes")));
  EXPECT_THAT(refused(hindexed(int_type(), {1}, {-4})), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("negative")));
  EXPECT_THAT(refused(hindexed(int_type(), {1, 1}, {8, 0})),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("decrease")));
  EXPECT_THAT(refused(hindexed(int_type(), {1, 1}, {0, 2})), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(refused(resized(int_type(), 0, 0)), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("extent")));
  EXPECT_THAT(refused(resized(int_type(), 0, -8)), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("extent")));
  EXPECT_THAT(refused(contiguous(byte(), 6)), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("whole etypes")));
  EXPECT_THAT(view_element(kMaxBytes, one_int, one_int), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(decode(MPI_DATATYPE_NULL, LeafSize::kNative), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("NULL")));
}

TEST(DatatypeTest, FiletypesThatInterleaveWithTheirNextItem) {
  const Sample filetype = resized(indexed_block(byte(), 1, {0, 5}), 0, 2);
  const auto view = view_element(100, decoded(MPI_BYTE), decoded(filetype.type()));
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->unmap(0), 100);
  EXPECT_EQ(view->unmap(1), 105);
  EXPECT_EQ(view->unmap(2), 102);
  EXPECT_EQ(view->unmap(2'000'001), 2'000'105);
  EXPECT_EQ(view->map(107), 3);
}

TEST(DatatypeTest, OfFiletypesThatOverlapWithTheirNextItemOnlyTheFirst) {
  for (const Sample& filetype :
       {resized(contiguous(int_type(), 2), 0, 4), resized(indexed_block(int_type(), 1, {0, 2}), 0, 8)}) {
    const auto view = view_element(100, decoded(MPI_INT), decoded(filetype.type()));
    ASSERT_THAT(view, IsOk());
    EXPECT_EQ(view->limit(), 8);
    EXPECT_EQ(view->unmap(0), 100);
    EXPECT_EQ(view->unmap(8), std::nullopt);
  }
}

TEST(DatatypeTest, ViewsKeepTheirDisplacementWhereTheyCan) {
  const Sample second_half = subarray(int_type(), {4}, {2}, {2}, MPI_ORDER_C);
  const auto view = view_element(10, decoded(MPI_INT), decoded(second_half.type()));
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->disp(), 10);
  EXPECT_EQ(view->period(), 16);
  EXPECT_EQ(view->unmap(0), 18);
}

#if MPI_VERSION >= 4
TEST(DatatypeTest, LargeCounts) {
  constexpr MPI_Count kMany = MPI_Count{1} << 33;
  MPI_Datatype type;
  MPI_Type_vector_c(kMany, 2, 3, MPI_SHORT, &type);
  Typemap map = decoded(type);
  EXPECT_EQ(map.falls, (layout::FallsSet{{0, 3, 6, kMany, {}}}));
  MPI_Type_free(&type);

  const std::array<MPI_Count, 2> lengths{kMany, 1};
  const std::array<MPI_Count, 2> at{0, 2 * kMany};
  MPI_Type_create_hindexed_c(2, lengths.data(), at.data(), MPI_BYTE, &type);
  map = decoded(type);
  EXPECT_EQ(map.falls, (layout::FallsSet{{0, kMany - 1, 0, 1, {}}, {2 * kMany, 2 * kMany, 0, 1, {}}}));
  MPI_Type_free(&type);

  const std::array<MPI_Count, 2> sizes{kMany, 8};
  const std::array<MPI_Count, 2> subsizes{kMany, 2};
  const std::array<MPI_Count, 2> starts{0, 5};
  MPI_Type_create_subarray_c(2, sizes.data(), subsizes.data(), starts.data(), MPI_ORDER_C, MPI_BYTE, &type);
  map = decoded(type);
  EXPECT_EQ(map.origin, 5);
  EXPECT_EQ(map.extent, 8 * kMany);
  EXPECT_EQ(map.falls, (layout::FallsSet{{0, 1, 8, kMany, {}}}));
  MPI_Type_free(&type);

  const std::array kinds{MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  const std::array arguments{MPI_DISTRIBUTE_DFLT_DARG, 2};
  const std::array grid{2, 2};
  MPI_Type_create_darray_c(4, 3, 2, sizes.data(), kinds.data(), arguments.data(), grid.data(), MPI_ORDER_C, MPI_BYTE,
                           &type);
  map = decoded(type);
  EXPECT_EQ(map.origin, 4 * kMany + 2);
  EXPECT_EQ(map.falls, (layout::FallsSet{{0, 1, 4, kMany, {}}}));
  MPI_Type_free(&type);

  MPI_Type_create_resized_c(MPI_BYTE, -kMany, 2 * kMany, &type);
  map = decoded(type);
  EXPECT_EQ(map.lower_bound, -kMany);
  EXPECT_EQ(map.extent, 2 * kMany);
  MPI_Type_free(&type);
}
#endif

}  // namespace
}  // namespace weir::mpiio::internal
