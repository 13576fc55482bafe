#pragma once

// Frames: what travels between two ends.  docs/formats.md tells the protocol.
//
//   caller                                          listener
//     │ kCall   head [+ body up to 64 KiB] ───────────> │  Handler::handle
//     │ <─────────────────────────────────────── kPull  │  Request::receive: the large body may come now
//     │ kBody   piece of the body, many ──────────────> │
//     │ <──────────── kReply  head [+ small body]       │  Request::reply
//     │ <──────────── kBody   piece of the body, many   │  unasked: the caller has told how much it has room for
//     │ kCancel (the caller has given up) ────────────> │
//     │ kAsk (no sign of life for long) ──────────────> │
//     │ <──────────────── kWorking (on its way; if it is not, there is no answer)
//     │ <──────────── kDropped (there will be no reply; why)
//
// Pieces of bodies may come in any order.  Memory of the receiver is written only by its own thread, when it takes in a
// frame that says which call it belongs to: a call that is over is no longer found, so nothing is written late.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <weir/base/result.h>

namespace weir::net::internal {

enum class FrameKind : std::uint8_t {
  kHello = 1,  ///< Handshake; see handshake.h.
  kChallenge,
  kProof,
  kWelcome,
  kRefusal,
  kCall,
  kPull,
  kBody,
  kReply,
  kCancel,
  kDropped,
  kGoodbye,  ///< From either end: the connection is over; why.
  kAsk,
  kWorking,
};

struct Frame {
  FrameKind kind = FrameKind::kHello;
  std::uint32_t head_bytes = 0;  ///< kCall, kReply: how much of the payload is the head.
  std::uint64_t session = 0;     ///< What only this connection's two ends know; 0 in the handshake.
  std::uint64_t call = 0;
  std::uint64_t number = 0;      ///< kCall, kReply: length of the body.  kBody: where in the body the payload belongs.
  std::uint64_t sink_bytes = 0;  ///< kCall: room for the body of the reply.

  friend bool operator==(const Frame&, const Frame&) = default;
};

/// A header, little endian: kind, 3 zeros, head_bytes, session, call, number, sink_bytes.
inline constexpr std::size_t kFrameBytes = 40;
using FrameHeader = std::array<std::byte, kFrameBytes>;

/// The body of a call travels in it if head and body together are at most this long: then one round trip is enough for
/// 64 KiB, and the copy that the listener keeps costs less than asking for the body.
inline constexpr std::size_t kMostInlineCall = 72 * 1024;
/// The same for replies, whose bodies need not be asked for.  Other bodies travel in pieces of this length.
inline constexpr std::size_t kPieceBytes = 8192;
/// Longest payload of a frame of the handshake.
inline constexpr std::size_t kMostHandshakeBytes = 8192;
/// Longest text that says why a call was dropped, or a connection ended.
inline constexpr std::size_t kMostReasonBytes = 400;

FrameHeader encode(const Frame& frame);

/// \error kCorrupt if header and length of the payload do not fit each other or exceed what is allowed
Result<Frame> decode_frame(std::span<const std::byte> header, std::size_t payload_bytes);

inline bool is_handshake(FrameKind kind) { return kind <= FrameKind::kRefusal; }

}  // namespace weir::net::internal
