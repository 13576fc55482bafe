#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/net/internal/frame.h>
#include <weir/net/net.h>

namespace weir::net::internal {
namespace {

using testing::IsOk;
using testing::StatusIs;

Frame call_frame(std::uint32_t head_bytes, std::uint64_t body_bytes) {
  return {.kind = FrameKind::kCall, .head_bytes = head_bytes, .session = 5, .call = 6, .number = body_bytes};
}

Result<Frame> recode(const Frame& frame, std::size_t payload_bytes) {
  return decode_frame(encode(frame), payload_bytes);
}

TEST(FrameTest, HeadersAreAsWritten) {
  const Frame frame{.kind = FrameKind::kCall,
                    .head_bytes = 0x01020304,
                    .session = 0x1112131415161718,
                    .call = 0x2122232425262728,
                    .number = 0x3132333435363738,
                    .sink_bytes = 0x4142434445464748};
  const unsigned expected[kFrameBytes] = {6,    0,    0,    0,    4,    3,    2,    1,    0x18, 0x17,
                                          0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25,
                                          0x24, 0x23, 0x22, 0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33,
                                          0x32, 0x31, 0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41};
  const FrameHeader header = encode(frame);
  for (std::size_t i = 0; i < kFrameBytes; ++i) EXPECT_EQ(std::to_integer<unsigned>(header[i]), expected[i]) << i;
}

TEST(FrameTest, ComesBack) {
  const Frame frame = call_frame(10, 20);
  const Result<Frame> again = recode(frame, 30);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(*again, frame);
}

TEST(FrameTest, BodiesComeWholeOrNotAtAll) {
  EXPECT_THAT(recode(call_frame(10, 20), 10), IsOk());
  EXPECT_THAT(recode(call_frame(10, 20), 29), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(recode(call_frame(10, 20), 31), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(recode(call_frame(10, 0), 9), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(recode(call_frame(0, kMostInlineCall), kMostInlineCall), IsOk());
  EXPECT_THAT(recode(call_frame(0, kMostInlineCall + 1), kMostInlineCall + 1), StatusIs(ErrorCode::kCorrupt));
  Frame reply = call_frame(0, kPieceBytes);
  reply.kind = FrameKind::kReply;
  EXPECT_THAT(recode(reply, kPieceBytes), IsOk());
  reply.number = kPieceBytes + 1;
  EXPECT_THAT(recode(reply, kPieceBytes + 1), StatusIs(ErrorCode::kCorrupt));
}

TEST(FrameTest, KeepsTheLimits) {
  EXPECT_THAT(recode(call_frame(kMostHeadBytes, kMostBodyBytes), kMostHeadBytes), IsOk());
  EXPECT_THAT(recode(call_frame(kMostHeadBytes + 1, 0), kMostHeadBytes + 1), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(recode(call_frame(0, kMostBodyBytes + 1), 0), StatusIs(ErrorCode::kCorrupt));
}

TEST(FrameTest, PiecesLieInABody) {
  const auto piece = [](std::uint64_t at) { return Frame{.kind = FrameKind::kBody, .session = 5, .number = at}; };
  EXPECT_THAT(recode(piece(kMostBodyBytes - 8), 8), IsOk());
  EXPECT_THAT(recode(piece(kMostBodyBytes - 8), 9), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(recode(piece(~std::uint64_t{0}), 1), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(recode(piece(0), 0), StatusIs(ErrorCode::kCorrupt));
}

TEST(FrameTest, HandshakesHaveNoSession) {
  EXPECT_THAT(recode({.kind = FrameKind::kHello}, 40), IsOk());
  EXPECT_THAT(recode({.kind = FrameKind::kHello, .session = 1}, 40), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(recode({.kind = FrameKind::kProof}, kMostHandshakeBytes + 1), StatusIs(ErrorCode::kCorrupt));
}

TEST(FrameTest, RefusesWhatIsNoFrame) {
  const FrameHeader header = encode(call_frame(0, 0));
  ASSERT_THAT(decode_frame(header, 0), IsOk());
  EXPECT_THAT(decode_frame(std::span(header).first(kFrameBytes - 1), 0), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(decode_frame({}, 0), StatusIs(ErrorCode::kCorrupt));
  for (unsigned kind = 0; kind < 256; ++kind) {
    FrameHeader other = encode(Frame{});
    other[0] = static_cast<std::byte>(kind);
    const bool is_known = kind >= 1 && kind <= 14 && kind != static_cast<unsigned>(FrameKind::kBody);
    EXPECT_EQ(decode_frame(other, 0).is_ok(), is_known) << kind;
  }
  for (std::size_t i = 1; i < 4; ++i) {
    FrameHeader other = header;
    other[i] = std::byte{1};
    EXPECT_THAT(decode_frame(other, 0), StatusIs(ErrorCode::kCorrupt)) << i;
  }
}

}  // namespace
}  // namespace weir::net::internal
