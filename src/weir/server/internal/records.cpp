#include <weir/server/internal/records.h>

#include <vector>

#include <weir/base/text.h>

namespace weir::server::internal {

namespace {

constexpr std::size_t kNumberBytes = 8;

}  // namespace

std::string encode_number(FileNumber number) {
  std::string bytes(kNumberBytes, '\0');
  for (std::size_t i = kNumberBytes; i-- > 0; number >>= 8) bytes[i] = static_cast<char>(number & 0xff);
  return bytes;
}

Result<FileNumber> decode_number(std::string_view bytes) {
  if (bytes.size() != kNumberBytes)
    return corrupt(concat("metadata: a number of ", bytes.size(), " bytes instead of 8"));
  FileNumber number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

std::string entry_prefix(FileNumber directory) { return concat('d', encode_number(directory)); }
std::string entry_key(FileNumber directory, std::string_view name) {
  return concat('d', encode_number(directory), name);
}
std::string record_key(FileNumber number) { return concat(kRecordPrefix, encode_number(number)); }
std::string relayout_key(FileNumber number) { return concat('r', encode_number(number)); }
std::string removal_key(FileNumber data) { return concat(kRemovalPrefix, encode_number(data)); }

Result<FileNumber> number_of_key(std::string_view key) { return decode_number(key.substr(kRecordPrefix.size())); }

std::string encode_attributes(const wire::AttributesT& attributes) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::Attributes::Pack(builder, &attributes));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Result<wire::AttributesT> decode_attributes(std::string_view bytes) {
  // FlatBuffers reads numbers in place: the copy aligns them.
  const std::vector<std::uint8_t> aligned(bytes.begin(), bytes.end());
  flatbuffers::Verifier verifier(aligned.data(), aligned.size());
  if (!verifier.VerifyBuffer<wire::Attributes>(nullptr)) {
    return corrupt(concat("metadata: attributes of ", bytes.size(), " bytes do not hold what they claim to hold"));
  }
  wire::AttributesT attributes;
  flatbuffers::GetRoot<wire::Attributes>(aligned.data())->UnPackTo(&attributes);
  return attributes;
}

// <parent, 8 bytes> <length of the name, 1 byte> <name> <attributes>
std::string encode_record(const Record& record) {
  return concat(encode_number(record.parent), static_cast<char>(record.name.size()), record.name,
                encode_attributes(record.attributes));
}

Result<Record> decode_record(std::string_view bytes) {
  constexpr std::size_t fixed = kNumberBytes + 1;
  const std::size_t name_bytes = bytes.size() < fixed ? 0 : static_cast<unsigned char>(bytes[kNumberBytes]);
  if (bytes.size() < fixed + name_bytes) return corrupt(concat("metadata: a record of only ", bytes.size(), " bytes"));
  Record record;
  WEIR_TRY(record.parent, decode_number(bytes.substr(0, kNumberBytes)));
  record.name = bytes.substr(fixed, name_bytes);
  WEIR_TRY(record.attributes, decode_attributes(bytes.substr(fixed + name_bytes)));
  return record;
}

}  // namespace weir::server::internal
