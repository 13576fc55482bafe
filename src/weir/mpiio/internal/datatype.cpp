#include <weir/mpiio/internal/datatype.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <weir/mpiio/internal/basic_types.h>

namespace weir::mpiio::internal {

namespace {

using layout::Element;

Status mpi_status(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return Status::ok();
  return {ErrorCode::kIoError, concat("decode: ", call, " failed with code ", code)};
}

// How many arguments of each kind the call that made a type had.
struct Envelope {
  MPI_Count integers = 0;
  MPI_Count addresses = 0;
  MPI_Count large_counts = 0;
  MPI_Count datatypes = 0;
  int combiner = MPI_COMBINER_NAMED;

  /// Made by a call, so that the handle that MPI_Type_get_contents gives must be freed.
  [[nodiscard]] bool is_derived() const noexcept {
    return combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_REAL &&
           combiner != MPI_COMBINER_F90_COMPLEX && combiner != MPI_COMBINER_F90_INTEGER;
  }
};

Result<Envelope> envelope_of(MPI_Datatype type) {
  Envelope envelope;
#if MPI_VERSION >= 4
  WEIR_RETURN_IF_ERROR(
      mpi_status(MPI_Type_get_envelope_c(type, &envelope.integers, &envelope.addresses, &envelope.large_counts,
                                         &envelope.datatypes, &envelope.combiner),
                 "MPI_Type_get_envelope_c"));
#else
  int integers = 0;
  int addresses = 0;
  int datatypes = 0;
  WEIR_RETURN_IF_ERROR(mpi_status(MPI_Type_get_envelope(type, &integers, &addresses, &datatypes, &envelope.combiner),
                                  "MPI_Type_get_envelope"));
  envelope.integers = integers;
  envelope.addresses = addresses;
  envelope.datatypes = datatypes;
#endif
  return envelope;
}

/// Datatypes that the owner frees, except those that MPI predefines.
class Handles {
 public:
  explicit Handles(std::size_t count) : types_(count, MPI_DATATYPE_NULL) {}
  Handles(Handles&&) noexcept = default;
  Handles& operator=(Handles&&) = delete;
  ~Handles() {
    for (MPI_Datatype& type : types_) {
      if (type == MPI_DATATYPE_NULL) continue;
      const auto envelope = envelope_of(type);
      if (envelope.is_ok() && envelope->is_derived()) MPI_Type_free(&type);
    }
  }
  [[nodiscard]] MPI_Datatype* data() noexcept { return types_.data(); }
  [[nodiscard]] const std::vector<MPI_Datatype>& list() const noexcept { return types_; }

 private:
  std::vector<MPI_Datatype> types_;
};

/// The arguments of the call that made a type.
struct Contents {
  std::vector<Offset> numbers;  ///< Counts and displacements, in the order of the call.
  Handles types;

  [[nodiscard]] std::span<const Offset> list(Offset first, Offset count) const {
    return std::span(numbers).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  }
};

// Arguments of the calls with large counts that remain int and come before all others.
std::size_t leading_integers(int combiner) {
  if (combiner == MPI_COMBINER_SUBARRAY) return 1;
  return combiner == MPI_COMBINER_DARRAY ? 3 : 0;
}

Result<Contents> contents_of(MPI_Datatype type, const Envelope& envelope) {
  std::vector<int> integers(static_cast<std::size_t>(envelope.integers));
  std::vector<MPI_Aint> addresses(static_cast<std::size_t>(envelope.addresses));
  std::vector<MPI_Count> large(static_cast<std::size_t>(envelope.large_counts));
  Contents contents{{}, Handles(static_cast<std::size_t>(envelope.datatypes))};
#if MPI_VERSION >= 4
  WEIR_RETURN_IF_ERROR(mpi_status(
      MPI_Type_get_contents_c(type, envelope.integers, envelope.addresses, envelope.large_counts, envelope.datatypes,
                              integers.data(), addresses.data(), large.data(), contents.types.data()),
      "MPI_Type_get_contents_c"));
#else
  WEIR_RETURN_IF_ERROR(
      mpi_status(MPI_Type_get_contents(type, static_cast<int>(envelope.integers), static_cast<int>(envelope.addresses),
                                       static_cast<int>(envelope.datatypes), integers.data(), addresses.data(),
                                       contents.types.data()),
                 "MPI_Type_get_contents"));
#endif
  const auto split =
      integers.begin() + static_cast<std::ptrdiff_t>(large.empty() ? 0 : leading_integers(envelope.combiner));
  auto& numbers = contents.numbers;
  numbers.reserve(integers.size() + addresses.size() + large.size());
  numbers.insert(numbers.end(), integers.begin(), split);
  numbers.insert(numbers.end(), large.begin(), large.end());
  numbers.insert(numbers.end(), split, integers.end());
  numbers.insert(numbers.end(), addresses.begin(), addresses.end());
  return contents;
}

Result<Typemap> strided(Typemap item, Offset count, Offset block, Offset stride_bytes) {
  const Offset extent = item.extent;
  WEIR_TRY(Typemap row, repeat(std::move(item), block, extent));
  return repeat(std::move(row), count, stride_bytes);
}

/// Blocks of `lengths` items (one length for all, or one for each) at `displacements` * `unit`.
Result<Typemap> blocks(const Typemap& item, std::span<const Offset> lengths, std::span<const Offset> displacements,
                       Offset unit) {
  Sequence sequence;
  sequence.reserve(displacements.size());
  Typemap block;
  Offset block_length = -1;
  for (std::size_t i = 0; i < displacements.size(); ++i) {
    const Offset length = lengths[lengths.size() == 1 ? 0 : i];
    if (length != block_length) {
      WEIR_TRY(block, repeat(item, length, item.extent));
      block_length = length;
    }
    WEIR_TRY(const Offset at, checked_mul(displacements[i], unit));
    WEIR_RETURN_IF_ERROR(sequence.add(block, at));
  }
  return sequence.finish();
}

/// What one process has of one dimension of an array: blocks of `block` indices at `first`, `first` + `step`, ... below
/// `size`.
struct Dimension {
  Offset size = 0;
  Offset first = 0;
  Offset block = 0;
  Offset step = 0;
};

// `stride`: bytes from one index to the next.
Result<Typemap> share(const Typemap& item, const Dimension& dimension, Offset stride) {
  if (dimension.first >= dimension.size || dimension.block <= 0) return Typemap{};
  const Offset rest = dimension.size - dimension.first;
  Offset whole = rest / dimension.step;
  Offset clipped = std::min(rest % dimension.step, dimension.block);
  if (clipped == dimension.block) {
    ++whole;
    clipped = 0;
  }
  WEIR_TRY(const Offset step_bytes, checked_mul(whole > 1 ? dimension.step : 0, stride));
  WEIR_TRY(Typemap block, repeat(item, dimension.block, stride));
  WEIR_TRY(Typemap cycles, repeat(std::move(block), whole, step_bytes));
  WEIR_TRY(const Typemap last, repeat(item, clipped, stride));
  WEIR_TRY(const Offset at, checked_mul(dimension.first, stride));
  WEIR_TRY(const Offset last_at, checked_mul(dimension.first + whole * dimension.step, clipped > 0 ? stride : 0));
  Sequence sequence;
  WEIR_RETURN_IF_ERROR(sequence.add(cycles, at));
  WEIR_RETURN_IF_ERROR(sequence.add(last, last_at));
  return sequence.finish();
}

/// The part of an array that `dimensions` select; its bounds are those of the whole array.
Result<Typemap> array_part(Typemap item, std::vector<Dimension> dimensions, Offset order) {
  if (order == MPI_ORDER_C) std::reverse(dimensions.begin(), dimensions.end());  // now the fastest comes first
  Offset stride = item.extent;
  for (const Dimension& dimension : dimensions) {
    WEIR_TRY(item, share(item, dimension, stride));
    WEIR_TRY(stride, checked_mul(stride, dimension.size));
  }
  item.lower_bound = 0;
  item.extent = stride;
  item.has_markers = true;
  return item;
}

Result<Typemap> subarray(Typemap item, const Contents& contents) {
  const Offset rank = contents.numbers[0];
  const auto sizes = contents.list(1, rank);
  const auto subsizes = contents.list(1 + rank, rank);
  const auto starts = contents.list(1 + 2 * rank, rank);
  std::vector<Dimension> dimensions;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    dimensions.push_back({sizes[d], starts[d], subsizes[d], sizes[d]});
  }
  return array_part(std::move(item), std::move(dimensions), contents.numbers.back());
}

Result<Offset> block_width(Offset distribution, Offset argument, Offset size, Offset processes) {
  const bool is_default = argument == MPI_DISTRIBUTE_DFLT_DARG;
  if (distribution == MPI_DISTRIBUTE_NONE) return size;
  if (distribution == MPI_DISTRIBUTE_BLOCK) return is_default ? ceil_div(size, processes) : argument;
  if (distribution == MPI_DISTRIBUTE_CYCLIC) return is_default ? 1 : argument;
  return invalid_argument(concat("decode: darray has unknown distribution ", distribution));
}

// Processes are numbered in row-major order whatever the order of the array.
Result<Typemap> darray(Typemap item, const Contents& contents) {
  const Offset rank = contents.numbers[2];
  const auto sizes = contents.list(3, rank);
  const auto distributions = contents.list(3 + rank, rank);
  const auto arguments = contents.list(3 + 2 * rank, rank);
  const auto grid = contents.list(3 + 3 * rank, rank);
  Offset rest = contents.numbers[1];
  std::vector<Dimension> dimensions(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0;) {
    WEIR_TRY(const Offset width, block_width(distributions[d], arguments[d], sizes[d], grid[d]));
    WEIR_TRY(const Offset first, checked_mul(rest % grid[d], width));
    WEIR_TRY(const Offset step, checked_mul(width, grid[d]));
    dimensions[d] = {sizes[d], first, width, step};
    rest /= grid[d];
  }
  return array_part(std::move(item), std::move(dimensions), contents.numbers.back());
}

Result<Typemap> structure(const Contents& contents, LeafSize how) {
  const Offset count = contents.numbers[0];
  const auto lengths = contents.list(1, count);
  const auto displacements = contents.list(1 + count, count);
  std::map<MPI_Datatype, Typemap> decoded;  // members often share types, and nested sharing must not multiply the work
  Sequence sequence;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const MPI_Datatype type = contents.types.list()[i];
    auto found = decoded.find(type);
    if (found == decoded.end()) {
      WEIR_TRY(Typemap member, decode(type, how));
      found = decoded.emplace(type, std::move(member)).first;
    }
    WEIR_TRY(const Typemap block, repeat(found->second, lengths[i], found->second.extent));
    WEIR_RETURN_IF_ERROR(sequence.add(block, displacements[i]));
  }
  return sequence.finish();
}

Typemap resized(Typemap item, Offset lower_bound, Offset extent) {
  item.lower_bound = lower_bound;
  item.extent = extent;
  item.has_markers = true;
  return item;
}

Result<Typemap> decode_derived(MPI_Datatype type, const Envelope& envelope, LeafSize how) {
  WEIR_TRY(const Contents contents, contents_of(type, envelope));
  if (envelope.combiner == MPI_COMBINER_STRUCT) return structure(contents, how);
  WEIR_TRY(Typemap item, decode(contents.types.list()[0], how));
  const auto& numbers = contents.numbers;
  const Offset unit = item.extent;
  switch (envelope.combiner) {
    case MPI_COMBINER_DUP: return item;
    case MPI_COMBINER_CONTIGUOUS: return repeat(std::move(item), numbers[0], unit);
    case MPI_COMBINER_VECTOR: {
      WEIR_TRY(const Offset stride, checked_mul(numbers[2], unit));
      return strided(std::move(item), numbers[0], numbers[1], stride);
    }
    case MPI_COMBINER_HVECTOR: return strided(std::move(item), numbers[0], numbers[1], numbers[2]);
    case MPI_COMBINER_INDEXED:
      return blocks(item, contents.list(1, numbers[0]), contents.list(1 + numbers[0], numbers[0]), unit);
    case MPI_COMBINER_HINDEXED:
      return blocks(item, contents.list(1, numbers[0]), contents.list(1 + numbers[0], numbers[0]), 1);
    case MPI_COMBINER_INDEXED_BLOCK: return blocks(item, contents.list(1, 1), contents.list(2, numbers[0]), unit);
    case MPI_COMBINER_HINDEXED_BLOCK: return blocks(item, contents.list(1, 1), contents.list(2, numbers[0]), 1);
    case MPI_COMBINER_SUBARRAY: return subarray(std::move(item), contents);
    case MPI_COMBINER_DARRAY: return darray(std::move(item), contents);
    case MPI_COMBINER_RESIZED: return resized(std::move(item), numbers[0], numbers[1]);
    default:
      return invalid_argument(concat("decode: datatype made by a call unknown here, combiner ", envelope.combiner));
  }
}

Result<Typemap> decode_f90(MPI_Datatype type, const Envelope& envelope, LeafSize how) {
  WEIR_TRY(const Contents contents, contents_of(type, envelope));
  const auto& numbers = contents.numbers;
  return f90_typemap(type, how, envelope.combiner, numbers.size() > 1 ? numbers[0] : 0, numbers.back());
}

// MPI knows about alignment and other causes of padding; what it says holds in memory and in files of its
// representation.
Status take_native_bounds(MPI_Datatype type, Typemap& map) {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  MPI_Count size = 0;
  WEIR_RETURN_IF_ERROR(mpi_status(MPI_Type_get_extent_x(type, &lower, &extent), "MPI_Type_get_extent_x"));
  WEIR_RETURN_IF_ERROR(mpi_status(MPI_Type_size_x(type, &size), "MPI_Type_size_x"));
  if (size != map.size) {
    return {ErrorCode::kIoError, concat("decode: MPI says that the datatype has ", static_cast<Offset>(size),
                                        " bytes, but what it was made of has ", map.size)};
  }
  map.lower_bound = lower;
  map.extent = extent;
  return Status::ok();
}

// Rules of the standard for etypes and filetypes.
Status check_for_view(std::string_view which, const Typemap& map) {
  if (map.size > 0 && map.origin < 0) {
    return invalid_argument(concat("file view: the ", which, " has a negative displacement, ", map.origin));
  }
  if (map.size > 0 && map.extent < 1) {
    return invalid_argument(concat("file view: the ", which, " has an extent of ", map.extent,
                                   " bytes; it must be positive for items to stand side by side"));
  }
  return map.shape;
}

// The first item alone; the next would begin where no file reaches.
Result<Element> single_element(Offset disp, const Typemap& filetype) {
  const Offset begin = disp + filetype.origin;
  return Element::create(filetype.falls, {.disp = begin, .period = kMaxBytes - begin});
}

// Items that are longer than their extent interleave: one family, as long as files can be, instead of a period.  If
// they overlap, only the first can be used.  Programs do so: HDF5's types of several chunks have extents that mean
// nothing, and it never reads or writes more than one item.
Result<Element> interleaved_element(Offset disp, const Typemap& filetype) {
  if (filetype.size > filetype.extent) return single_element(disp, filetype);
  const Offset room = kMaxBytes - 1 - disp - filetype.origin - filetype.true_extent;
  WEIR_TRY(Typemap items, repeat(filetype, std::max<Offset>(room / filetype.extent, 1), filetype.extent));
  Result<Element> element = Element::create(std::move(items.falls), {.disp = disp + filetype.origin});
  if (element.is_ok() || element.status().code() != ErrorCode::kInvalidArgument) return element;
  return single_element(disp, filetype);
}

// The displacement stays that of the view where possible, so that views of several processes share it.
Result<Element> place(Offset disp, Typemap filetype) {
  if (filetype.true_extent > filetype.extent) return interleaved_element(disp, filetype);
  if (filetype.origin > filetype.extent - filetype.true_extent) {
    return Element::create(std::move(filetype.falls), {.disp = disp + filetype.origin, .period = filetype.extent});
  }
  for (layout::Falls& part : filetype.falls) {
    part.left += filetype.origin;
    part.right += filetype.origin;
  }
  return Element::create(std::move(filetype.falls), {.disp = disp, .period = filetype.extent});
}

}  // namespace

Offset extent_of(MPI_Datatype type) {
  MPI_Count low = 0;
  MPI_Count extent = 0;
  PMPI_Type_get_extent_x(type, &low, &extent);
  return extent;
}

Result<Typemap> decode(MPI_Datatype type, LeafSize how) {
  if (type == MPI_DATATYPE_NULL) return invalid_argument("decode: the datatype is MPI_DATATYPE_NULL");
  WEIR_TRY(const Envelope envelope, envelope_of(type));
  auto decoded = envelope.is_derived()                     ? decode_derived(type, envelope, how)
                 : envelope.combiner == MPI_COMBINER_NAMED ? basic_typemap(type, how)
                                                           : decode_f90(type, envelope, how);
  if (decoded.is_ok() && how == LeafSize::kNative) WEIR_RETURN_IF_ERROR(take_native_bounds(type, *decoded));
  return decoded;
}

namespace {

Status check_view(Offset disp, const Typemap& etype, const Typemap& filetype) {
  if (disp < 0) return invalid_argument(concat("file view: the displacement is negative, ", disp));
  if (etype.size == 0) return invalid_argument("file view: the etype has no bytes, so nothing can be counted in it");
  WEIR_RETURN_IF_ERROR(check_for_view("etype", etype));
  WEIR_RETURN_IF_ERROR(check_for_view("filetype", filetype));
  if (filetype.size % etype.size != 0) {
    return invalid_argument(concat("file view: the filetype of ", filetype.size,
                                   " bytes is not made of whole etypes of ", etype.size, " bytes"));
  }
  WEIR_TRY(const Offset begin, checked_add(disp, filetype.origin));
  return checked_add(begin, std::max(filetype.true_extent, filetype.extent)).status();
}

}  // namespace

Result<Element> view_element(Offset disp, const Typemap& etype, Typemap filetype) {
  WEIR_RETURN_IF_ERROR(check_view(disp, etype, filetype));
  if (filetype.size == 0) return Element::create({}, {.disp = disp, .period = std::max<Offset>(filetype.extent, 1)});
  const bool is_monotone = filetype.is_monotone;
  WEIR_TRY(Element element, place(disp, std::move(filetype)));
  if (is_monotone) return element;
  return invalid_argument(
      "file view: displacements of the filetype decrease; the standard wants them in ascending order");
}

bool has_overlaps(const Typemap& filetype, const Result<Element>& element) {
  if (!element.is_ok()) return element.status().code() == ErrorCode::kInvalidArgument && !filetype.is_monotone;
  return filetype.true_extent > filetype.extent && element->size() == filetype.size;  // only the first item
}

Result<pario::OverlappingView> overlapping_view(Offset disp, const Typemap& etype, const Typemap& filetype) {
  WEIR_RETURN_IF_ERROR(check_view(disp, etype, filetype));
  WEIR_TRY(const Offset start, checked_add(disp, filetype.origin));
  return pario::OverlappingView::create(start, filetype.falls, filetype.extent);
}

}  // namespace weir::mpiio::internal
