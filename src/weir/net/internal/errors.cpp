#include <weir/net/internal/errors.h>

#include <algorithm>

#include <weir/base/text.h>
#include <weir/net/internal/frame.h>

namespace weir::net::internal {

Status timed_out(const Call& call, const Address& address) {
  if (call.patience == Clock::duration::zero()) {
    return {ErrorCode::kTimedOut, concat("call to ", address.text, ": no answer before the deadline")};
  }
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(call.patience);
  return {ErrorCode::kTimedOut,
          concat("call to ", address.text, ": no answer before the deadline: the server has given no sign of life for ",
                 patience.count(), " ms")};
}

Status gone(const Address& address, std::string_view why) {
  return {ErrorCode::kUnavailable, concat("call to ", address.text, ": ", why)};
}

Status left(std::string_view why) {
  return {ErrorCode::kUnavailable,
          why.empty() ? "connection: the other end has left" : concat("connection: the other end says: ", why)};
}

std::string printable(std::span<const std::byte> text) {
  std::string out(reinterpret_cast<const char*>(text.data()), std::min(text.size(), kMostReasonBytes));
  for (char& character : out) {
    if (character < ' ' || character > '~') character = '?';
  }
  return out;
}

Status cannot_connect(const Address& address, const Status& why) {
  return {why.code(), concat("connect to ", address.text, ": ", why.message())};
}

Status wrong_room(std::size_t room_bytes, std::size_t body_bytes) {
  return invalid_argument(concat("receive: room for ", room_bytes, " bytes, the body has ", body_bytes));
}

Status check_key(const Address& address, const Key& key) {
  if (key.bytes.size() == 32) return Status::ok();
  return invalid_argument(
      concat("connect to ", address.text, ": the key has ", key.bytes.size(), " bytes instead of 32"));
}

Status check_call(const Address& address, const Call& call) {
  if (call.head.size() <= kMostHeadBytes && call.body.size() <= kMostBodyBytes) return Status::ok();
  return invalid_argument(concat("call to ", address.text, ": a head of ", call.head.size(), " and a body of ",
                                 call.body.size(), " bytes; at most ", kMostHeadBytes, " and ", kMostBodyBytes,
                                 " go into one call"));
}

Status check_reply(const Address& address, std::size_t head_bytes, std::size_t body_bytes, std::size_t sink_bytes) {
  if (head_bytes > kMostHeadBytes)
    return invalid_argument(
        concat("reply from ", address.text, ": a head of ", head_bytes, " bytes; at most ", kMostHeadBytes));
  if (body_bytes > sink_bytes)
    return invalid_argument(
        concat("reply from ", address.text, ": a body of ", body_bytes, " bytes; the call has room for ", sink_bytes));
  return Status::ok();
}

}  // namespace weir::net::internal
