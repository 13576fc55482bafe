// Input: the header of a frame, then its payload.  What is taken for a frame keeps the limits, and its header is the
// only one of that frame.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <weir/net/internal/frame.h>
#include <weir/net/net.h>

namespace {

using weir::net::internal::Frame;
using weir::net::internal::FrameHeader;
using weir::net::internal::FrameKind;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_limits(const Frame& frame, std::size_t payload_bytes) {
  if (frame.kind == FrameKind::kCall || frame.kind == FrameKind::kReply) {
    require(frame.head_bytes <= payload_bytes && frame.head_bytes <= weir::net::kMostHeadBytes);
    require(frame.number <= weir::net::kMostBodyBytes);
  }
  if (frame.kind == FrameKind::kBody) require(frame.number + payload_bytes <= weir::net::kMostBodyBytes);
  if (weir::net::internal::is_handshake(frame.kind))
    require(frame.session == 0 && payload_bytes <= weir::net::internal::kMostHandshakeBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = bytes.first(std::min(size, weir::net::internal::kFrameBytes));
  const std::size_t payload_bytes = size - header.size();
  const auto frame = weir::net::internal::decode_frame(header, payload_bytes);
  if (!frame.is_ok()) return 0;
  check_limits(*frame, payload_bytes);
  const FrameHeader again = weir::net::internal::encode(*frame);
  require(std::equal(again.begin(), again.end(), header.begin(), header.end()));
  return 0;
}
