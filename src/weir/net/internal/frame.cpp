#include <weir/net/internal/frame.h>

#include <weir/base/text.h>
#include <weir/net/internal/bytes.h>
#include <weir/net/net.h>

namespace weir::net::internal {

namespace {

/// Head and body of a call or reply: a small body comes with it whole, others not at all.
bool has_sound_body(const Frame& frame, std::size_t payload_bytes) {
  if (frame.head_bytes > kMostHeadBytes || frame.head_bytes > payload_bytes || frame.number > kMostBodyBytes)
    return false;
  const std::size_t inline_bytes = payload_bytes - frame.head_bytes;
  const std::size_t most = frame.kind == FrameKind::kCall ? kMostInlineCall : kPieceBytes;
  return inline_bytes == 0 || (inline_bytes == frame.number && payload_bytes <= most);
}

bool is_sound(const Frame& frame, std::size_t payload_bytes) {
  switch (frame.kind) {
    case FrameKind::kHello:
    case FrameKind::kChallenge:
    case FrameKind::kProof:
    case FrameKind::kWelcome:
    case FrameKind::kRefusal: return frame.session == 0 && payload_bytes <= kMostHandshakeBytes;
    case FrameKind::kCall:
    case FrameKind::kReply: return has_sound_body(frame, payload_bytes);
    case FrameKind::kBody:
      return payload_bytes > 0 && payload_bytes <= kMostBodyBytes && frame.number <= kMostBodyBytes - payload_bytes;
    case FrameKind::kPull:
    case FrameKind::kCancel:
    case FrameKind::kAsk:
    case FrameKind::kWorking: return payload_bytes == 0;
    case FrameKind::kGoodbye:
    case FrameKind::kDropped: return payload_bytes <= kMostReasonBytes;
  }
  return false;
}

}  // namespace

FrameHeader encode(const Frame& frame) {
  FrameHeader out{};
  out[0] = static_cast<std::byte>(frame.kind);
  put(out.data() + 4, frame.head_bytes);
  put(out.data() + 8, frame.session);
  put(out.data() + 16, frame.call);
  put(out.data() + 24, frame.number);
  put(out.data() + 32, frame.sink_bytes);
  return out;
}

Result<Frame> decode_frame(std::span<const std::byte> header, std::size_t payload_bytes) {
  if (header.size() != kFrameBytes)
    return corrupt(concat("frame header of ", header.size(), " bytes instead of ", kFrameBytes));
  Reader reader(header);
  const auto first = reader.number<std::uint32_t>();
  Frame frame;
  frame.kind = static_cast<FrameKind>(first & 0xff);
  frame.head_bytes = reader.number<std::uint32_t>();
  frame.session = reader.number<std::uint64_t>();
  frame.call = reader.number<std::uint64_t>();
  frame.number = reader.number<std::uint64_t>();
  frame.sink_bytes = reader.number<std::uint64_t>();
  if (first > 0xff || !is_sound(frame, payload_bytes))
    return corrupt(concat("frame of kind ", first, " with a head of ", frame.head_bytes, ", number ", frame.number,
                          " and ", payload_bytes, " bytes of payload"));
  return frame;
}

}  // namespace weir::net::internal
