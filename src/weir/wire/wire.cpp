#include <weir/wire/wire.h>

#include <cassert>
#include <cstdint>
#include <memory>

#include <weir/base/text.h>
#include <weir/layout/binary.h>
#include <weir/wire/internal/vectors.h>

namespace weir::wire {

namespace {

constexpr flatbuffers::uoffset_t kMostDepth = 8;           // the schema has no recursion: the deepest table is 4 down
constexpr flatbuffers::uoffset_t kMostTables = 1'000'000;  // more than fit into a head of ours

std::vector<std::uint8_t> to_vector(const Bytes& bytes) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {begin, begin + bytes.size()};
}

template <typename Table>
Bytes encode_table(const typename Table::NativeTableType& head) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &head));
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {begin, begin + builder.GetSize()};
}

/// FlatBuffers reads numbers in place and its verifier wants them aligned to themselves; bytes from the network may
/// start anywhere.
class Aligned {
 public:
  explicit Aligned(std::span<const std::byte> bytes) : bytes_(bytes) {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::max_align_t) == 0) return;
    copy_.assign(bytes.begin(), bytes.end());
    bytes_ = copy_;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Bytes copy_;
  std::span<const std::byte> bytes_;
};

template <typename Table>
Result<typename Table::NativeTableType> decode_table(std::span<const std::byte> unaligned, std::string_view what) {
  if (unaligned.size() > kMostHeadBytes)
    return corrupt(concat(what, " of ", unaligned.size(), " bytes; at most ", kMostHeadBytes, " are allowed"));
  const Aligned aligned(unaligned);
  const std::span<const std::byte> bytes = aligned.bytes();
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), kMostDepth, kMostTables);
  if (!verifier.VerifyBuffer<Table>(nullptr))
    return corrupt(concat(what, " of ", bytes.size(), " bytes is not a message of the schema"));
  const auto unpacked =
      internal::bytes_in_vectors(*flatbuffers::GetRoot<flatbuffers::Table>(data), *Table::MiniReflectTypeTable());
  if (!unpacked.has_value())
    return corrupt(concat(what, " of ", bytes.size(), " bytes has a list at an address that is not aligned"));
  // Offsets in a hostile buffer may all lead to the same bytes, so that unpacking makes gigabytes of kilobytes.  Ours
  // never do.
  if (*unpacked > bytes.size())
    return corrupt(concat(what, " of ", bytes.size(), " bytes claims to hold more than that"));
  typename Table::NativeTableType native;
  flatbuffers::GetRoot<Table>(data)->UnPackTo(&native);
  return native;
}

}  // namespace

Bytes encode(const RequestHeadT& head) { return encode_table<RequestHead>(head); }
Bytes encode(const ReplyHeadT& head) { return encode_table<ReplyHead>(head); }

Bytes encode_failure(const Status& status, std::uint64_t boot) {
  assert(!status.is_ok());
  FailureT failure;
  failure.code = static_cast<std::uint8_t>(status.code());
  failure.message = status.message();
  failure.location = status.location().value_or(-1);
  return encode_reply(std::move(failure), boot);
}

Result<RequestHeadT> decode_request(std::span<const std::byte> bytes) {
  WEIR_TRY(RequestHeadT head, decode_table<RequestHead>(bytes, "request head"));
  // A union may name its type and hold nothing: that passes the verifier.
  if (head.operation.type == Operation::NONE || head.operation.value == nullptr)
    return corrupt("request head has no operation that this version knows");
  return head;
}

Result<ReplyHeadT> decode_reply(std::span<const std::byte> bytes) {
  WEIR_TRY(ReplyHeadT head, decode_table<ReplyHead>(bytes, "reply head"));
  if (head.answer.type == Answer::NONE || head.answer.value == nullptr)
    return corrupt("reply head has no answer that this version knows");
  return head;
}

Status to_status(const FailureT& failure) {
  const bool is_known = failure.code > 0 && failure.code <= static_cast<std::uint8_t>(ErrorCode::kQuota);
  const ErrorCode code = is_known ? static_cast<ErrorCode>(failure.code) : ErrorCode::kIoError;
  std::optional<std::int64_t> location;
  if (failure.location >= 0) location = failure.location;
  return {code, failure.message, location};
}

std::vector<std::uint8_t> encode_about(const AboutT& about) { return to_vector(encode_table<About>(about)); }

Result<AboutT> decode_about(std::span<const std::byte> bytes) { return decode_table<About>(bytes, "about"); }

std::unique_ptr<BandT> to_band(const layout::Element& view, const layout::Element& subfile) {
  auto band = std::make_unique<BandT>();
  band->view = to_vector(layout::encode(view.falls()));
  band->view_disp = view.disp();
  band->view_period = view.period();
  band->subfile = to_vector(layout::encode(subfile.falls()));
  band->subfile_disp = subfile.disp();
  band->subfile_period = subfile.period();
  return band;
}

std::vector<std::uint8_t> to_bytes(const layout::Partition& partition) { return to_vector(layout::encode(partition)); }

Result<layout::Partition> to_partition(const std::vector<std::uint8_t>& bytes) {
  return layout::decode_partition(std::as_bytes(std::span(bytes)));
}

}  // namespace weir::wire
