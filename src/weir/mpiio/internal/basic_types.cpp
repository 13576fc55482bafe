#include <weir/mpiio/internal/basic_types.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

namespace weir::mpiio::internal {

namespace {

struct Length {
  MPI_Datatype type;
  Offset bytes;
};

// Sizes in external32, section "External Data Representation" of the standard.  Optional types that an MPI lacks are
// MPI_DATATYPE_NULL there and never match.
std::span<const Length> external32_lengths() {
  static const Length lengths[] = {
      {MPI_PACKED, 1},
      {MPI_BYTE, 1},
      {MPI_CHAR, 1},
      {MPI_UNSIGNED_CHAR, 1},
      {MPI_SIGNED_CHAR, 1},
      {MPI_WCHAR, 2},
      {MPI_SHORT, 2},
      {MPI_UNSIGNED_SHORT, 2},
      {MPI_INT, 4},
      {MPI_UNSIGNED, 4},
      {MPI_LONG, 4},
      {MPI_UNSIGNED_LONG, 4},
      {MPI_LONG_LONG_INT, 8},
      {MPI_UNSIGNED_LONG_LONG, 8},
      {MPI_FLOAT, 4},
      {MPI_DOUBLE, 8},
      {MPI_LONG_DOUBLE, 16},
      {MPI_C_BOOL, 1},
      {MPI_INT8_T, 1},
      {MPI_INT16_T, 2},
      {MPI_INT32_T, 4},
      {MPI_INT64_T, 8},
      {MPI_UINT8_T, 1},
      {MPI_UINT16_T, 2},
      {MPI_UINT32_T, 4},
      {MPI_UINT64_T, 8},
      {MPI_AINT, 8},
      {MPI_COUNT, 8},
      {MPI_OFFSET, 8},
      {MPI_C_FLOAT_COMPLEX, 8},
      {MPI_C_DOUBLE_COMPLEX, 16},
      {MPI_C_LONG_DOUBLE_COMPLEX, 32},
      {MPI_CXX_BOOL, 1},
      {MPI_CXX_FLOAT_COMPLEX, 8},
      {MPI_CXX_DOUBLE_COMPLEX, 16},
      {MPI_CXX_LONG_DOUBLE_COMPLEX, 32},
      {MPI_CHARACTER, 1},
      {MPI_LOGICAL, 4},
      {MPI_INTEGER, 4},
      {MPI_REAL, 4},
      {MPI_DOUBLE_PRECISION, 8},
      {MPI_COMPLEX, 8},
      {MPI_DOUBLE_COMPLEX, 16},
      {MPI_INTEGER1, 1},
      {MPI_INTEGER2, 2},
      {MPI_INTEGER4, 4},
      {MPI_INTEGER8, 8},
      {MPI_REAL4, 4},
      {MPI_REAL8, 8},
      {MPI_REAL16, 16},
      {MPI_COMPLEX8, 8},
      {MPI_COMPLEX16, 16},
      {MPI_COMPLEX32, 32},
  };
  return lengths;
}

// Types of two values, for MPI_MAXLOC and MPI_MINLOC.
struct Pair {
  MPI_Datatype type;
  MPI_Datatype first;
  MPI_Datatype second;
};

std::optional<Pair> find_pair(MPI_Datatype type) {
  static const Pair pairs[] = {
      {MPI_FLOAT_INT, MPI_FLOAT, MPI_INT},
      {MPI_DOUBLE_INT, MPI_DOUBLE, MPI_INT},
      {MPI_LONG_INT, MPI_LONG, MPI_INT},
      {MPI_SHORT_INT, MPI_SHORT, MPI_INT},
      {MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE, MPI_INT},
      {MPI_2INT, MPI_INT, MPI_INT},
      {MPI_2REAL, MPI_REAL, MPI_REAL},
      {MPI_2DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION},
      {MPI_2INTEGER, MPI_INTEGER, MPI_INTEGER},
  };
  const auto* found =
      std::find_if(std::begin(pairs), std::end(pairs), [&](const Pair& pair) { return pair.type == type; });
  return found != std::end(pairs) && type != MPI_DATATYPE_NULL ? std::optional(*found) : std::nullopt;
}

std::string name_of(MPI_Datatype type) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  MPI_Type_get_name(type, name, &length);
  return {name, static_cast<std::size_t>(std::max(length, 0))};
}

Offset native_length(MPI_Datatype type) {
  MPI_Count bytes = 0;
  MPI_Type_size_x(type, &bytes);
  return static_cast<Offset>(bytes);
}

Result<Offset> length(MPI_Datatype type, LeafSize how) {
  const Offset native = native_length(type);
  if (how == LeafSize::kNative || native == 0)
    return native;  // of no bytes: the bounds MPI_LB and MPI_UB of old programs
  for (const Length& known : external32_lengths()) {
    if (known.type == type) return known.bytes;
  }
  return invalid_argument(concat("datatype ", name_of(type), " has no size in external32: use another representation"));
}

// In memory the second value is aligned as in a struct of C; files of external32 know no padding.
Result<Typemap> pair_typemap(const Pair& pair, LeafSize how) {
  WEIR_TRY(const Offset first, length(pair.first, how));
  WEIR_TRY(const Offset second, length(pair.second, how));
  const Offset second_at = how == LeafSize::kNative ? ceil_div(first, second) * second : first;
  Sequence sequence;
  WEIR_RETURN_IF_ERROR(sequence.add(segment(first), 0));
  WEIR_RETURN_IF_ERROR(sequence.add(segment(second), second_at));
  return sequence.finish();
}

// The smallest IEEE format for a real of so many decimal digits and so large an exponent.
Result<Offset> external32_real(Offset precision, Offset range) {
  if (precision <= 6 && range <= 37) return 4;
  if (precision <= 15 && range <= 307) return 8;
  if (precision <= 33 && range <= 4931) return 16;
  return invalid_argument(
      concat("a real of ", precision, " digits and exponents up to ", range, " has no size in external32"));
}

Result<Offset> external32_integer(Offset range) {
  if (range <= 2) return 1;
  if (range <= 4) return 2;
  if (range <= 9) return 4;
  if (range <= 18) return 8;
  if (range <= 38) return 16;
  return invalid_argument(concat("an integer of ", range, " digits has no size in external32"));
}

}  // namespace

Result<Typemap> basic_typemap(MPI_Datatype type, LeafSize how) {
  if (const auto pair = find_pair(type)) return pair_typemap(*pair, how);
  WEIR_TRY(const Offset bytes, length(type, how));
  return segment(bytes);
}

Result<Typemap> f90_typemap(MPI_Datatype type, LeafSize how, int combiner, Offset precision, Offset range) {
  if (how == LeafSize::kNative) return segment(native_length(type));
  // A parameter that was not given (MPI_UNDEFINED) asks for nothing.
  if (precision == MPI_UNDEFINED) precision = 0;
  if (range == MPI_UNDEFINED) range = 0;
  WEIR_TRY(const Offset bytes,
           combiner == MPI_COMBINER_F90_INTEGER ? external32_integer(range) : external32_real(precision, range));
  return segment(combiner == MPI_COMBINER_F90_COMPLEX ? 2 * bytes : bytes);
}

}  // namespace weir::mpiio::internal
