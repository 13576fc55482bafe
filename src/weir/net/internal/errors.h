#pragma once

// Errors and checks that all transports share, so that they say the same.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <weir/net/net.h>

namespace weir::net::internal {

/// kTimedOut
Status timed_out(const Call& call, const Address& address);
/// kUnavailable
Status gone(const Address& address, std::string_view why);
/// kUnavailable: the other end has said goodbye, and maybe why.
Status left(std::string_view why = {});
/// What the other end says, fit for a terminal: at most kMostReasonBytes, other characters replaced.
std::string printable(std::span<const std::byte> text);
/// `why`, saying where to.
Status cannot_connect(const Address& address, const Status& why);
/// kInvalidArgument: Request::receive with the wrong room.
Status wrong_room(std::size_t room_bytes, std::size_t body_bytes);

/// \error kInvalidArgument
Status check_key(const Address& address, const Key& key);
Status check_call(const Address& address, const Call& call);
Status check_reply(const Address& address, std::size_t head_bytes, std::size_t body_bytes, std::size_t sink_bytes);

}  // namespace weir::net::internal
