#pragma once

// Heads of messages to bytes and back.  The tables are those of messages.fbs, as plain structs (wire::CreateT, ...).
//
// Decoding checks everything that FlatBuffers can check before a byte is believed; ranges and numbers are checked by
// the code that uses them.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <weir/base/result.h>
#include <weir/layout/element.h>
#include <weir/layout/partition.h>
#include <weir/wire/messages_generated.h>

namespace weir::wire {

using Bytes = std::vector<std::byte>;

/// The protocol, told in the handshake.  Both ends must have the same number.
inline constexpr std::uint32_t kVersion = 1;
/// Heads are small: a longer one is an error before it is read.
inline constexpr std::size_t kMostHeadBytes = std::size_t{16} << 20;

Bytes encode(const RequestHeadT& head);
Bytes encode(const ReplyHeadT& head);

/// encode_request(LookupT{...}, 500).  `store`: the one that is meant, if it must be that.  `epoch`: of the table of
/// targets that the operation goes by.
template <typename Table>
Bytes encode_request(Table operation, std::int64_t remaining_ms, std::uint64_t store = 0, std::uint64_t epoch = 0) {
  RequestHeadT head;
  head.operation.Set(std::move(operation));
  head.remaining_ms = remaining_ms;
  head.store = store;
  head.epoch = epoch;
  return encode(head);
}

template <typename Table>
Bytes encode_reply(Table answer, std::uint64_t boot = 0) {
  ReplyHeadT head;
  head.answer.Set(std::move(answer));
  head.boot = boot;
  return encode(head);
}

/// A FailureT.  \pre !status.is_ok()
Bytes encode_failure(const Status& status, std::uint64_t boot = 0);

/// \error kCorrupt
Result<RequestHeadT> decode_request(std::span<const std::byte> bytes);
Result<ReplyHeadT> decode_reply(std::span<const std::byte> bytes);

/// The status of a FailureT that came in a reply; a code that is not known becomes kIoError.
Status to_status(const FailureT& failure);

/// What stores keep beside subfiles.
std::vector<std::uint8_t> encode_about(const AboutT& about);
/// \error kCorrupt
Result<AboutT> decode_about(std::span<const std::byte> bytes);

/// Byte k of `view` is byte k of `subfile`.
std::unique_ptr<BandT> to_band(const layout::Element& view, const layout::Element& subfile);

std::vector<std::uint8_t> to_bytes(const layout::Partition& partition);
Result<layout::Partition> to_partition(const std::vector<std::uint8_t>& bytes);

}  // namespace weir::wire
