#include <weir/wire/internal/vectors.h>

#include <algorithm>
#include <cstdint>

#include <flatbuffers/minireflect.h>

namespace weir::wire::internal {

namespace {

using flatbuffers::ElementaryType;
using flatbuffers::Table;
using flatbuffers::TypeCode;
using flatbuffers::TypeTable;
using flatbuffers::uoffset_t;

/// The types that a field of a table, or a member of a union, refers to; nullptr: none.
const TypeTable* types_of(const TypeCode& code, const TypeTable& owner) {
  return code.sequence_ref < 0 ? nullptr : owner.type_refs[code.sequence_ref]();
}

bool is_sequence(const TypeCode& code) { return code.base_type == flatbuffers::ET_SEQUENCE; }

std::size_t inline_size(const TypeCode& code, const TypeTable* types) {
  return flatbuffers::InlineSize(static_cast<ElementaryType>(code.base_type), types);
}

std::size_t alignment_of(const TypeCode& code, const TypeTable* types) {
  if (!is_sequence(code) || types->st != flatbuffers::ST_STRUCT) return inline_size(code, types);
  std::size_t widest = 1;
  for (std::size_t i = 0; i < types->num_elems; ++i)
    widest = std::max(widest, alignment_of(types->type_codes[i], types_of(types->type_codes[i], *types)));
  return widest;
}

const std::uint8_t* follow(const std::uint8_t* offset) { return offset + flatbuffers::ReadScalar<uoffset_t>(offset); }

/// Adds up what bytes_in_vectors() returns, until something is misaligned.
class Walk {
 public:
  bool visit_table(const std::uint8_t* bytes, const TypeTable& types) {
    const auto& table = *reinterpret_cast<const Table*>(bytes);
    const std::uint8_t* before = nullptr;  // of a union: what says its type
    for (std::size_t i = 0; i < types.num_elems; ++i) {
      const std::uint8_t* field =
          table.GetAddressOf(flatbuffers::FieldIndexToOffset(static_cast<flatbuffers::voffset_t>(i)));
      if (field != nullptr && !visit_field(field, before, types.type_codes[i], types)) return false;
      before = field;
    }
    return true;
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  bool visit_field(const std::uint8_t* field, const std::uint8_t* before, const TypeCode& code,
                   const TypeTable& owner) {
    const TypeTable* types = types_of(code, owner);
    if (code.is_repeating != 0) return visit_vector(follow(field), code, types);
    if (code.base_type == flatbuffers::ET_STRING) return visit_elements(follow(field), 1, 1);
    if (!is_sequence(code)) return true;
    if (types->st == flatbuffers::ST_TABLE) return visit_table(follow(field), *types);
    if (types->st == flatbuffers::ST_UNION) return before == nullptr || visit_union(follow(field), *before, *types);
    return true;
  }

  bool visit_union(const std::uint8_t* member, std::uint8_t type, const TypeTable& types) {
    // Of a member that a later version added the verifier knows nothing, nor does what unpacks it.
    if (type >= types.num_elems) return true;
    const TypeTable* member_types = types_of(types.type_codes[type], types);
    return member_types == nullptr || visit_table(member, *member_types);
  }

  bool visit_vector(const std::uint8_t* vector, const TypeCode& code, const TypeTable* types) {
    if (!visit_elements(vector, inline_size(code, types), alignment_of(code, types))) return false;
    const bool holds_strings = code.base_type == flatbuffers::ET_STRING;
    const bool holds_tables = is_sequence(code) && types->st == flatbuffers::ST_TABLE;
    if (!holds_strings && !holds_tables) return true;
    const auto length = flatbuffers::ReadScalar<uoffset_t>(vector);
    for (std::size_t i = 1; i <= length; ++i) {
      const std::uint8_t* element = follow(vector + i * sizeof(uoffset_t));
      if (holds_strings ? !visit_elements(element, 1, 1) : !visit_table(element, *types)) return false;
    }
    return true;
  }

  /// Of a vector or a string: a length, then the elements.
  bool visit_elements(const std::uint8_t* vector, std::size_t size, std::size_t alignment) {
    const auto length = flatbuffers::ReadScalar<uoffset_t>(vector);
    bytes_ += length * size;
    return length == 0 || reinterpret_cast<std::uintptr_t>(vector + sizeof(uoffset_t)) % alignment == 0;
  }

  std::size_t bytes_ = 0;
};

}  // namespace

std::optional<std::size_t> bytes_in_vectors(const Table& table, const TypeTable& types) {
  Walk walk;
  if (!walk.visit_table(reinterpret_cast<const std::uint8_t*>(&table), types)) return std::nullopt;
  return walk.bytes();
}

}  // namespace weir::wire::internal
