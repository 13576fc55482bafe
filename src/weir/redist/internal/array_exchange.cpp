#include <weir/redist/internal/array_exchange.h>

#include <algorithm>

#include <weir/base/text.h>

namespace weir::redist::internal {

namespace {

constexpr Offset kPortion = Offset{1} << 17;       // of a local copy: short, so that no message waits long
constexpr Offset kLargeTarget = Offset{16} << 20;  // more than caches keep until the caller reads it

// Calls action(number of the array, range of its message, offset in the range of the stream).
template <typename Action>
void for_arrays(Offset bytes, exchange::Range range, Action action) {
  for (Offset at = range.from; at < range.to;) {
    const Offset array = at / bytes;
    const Range part{at - array * bytes, std::min(bytes, range.to - array * bytes)};
    action(static_cast<std::size_t>(array), part, at - range.from);
    at += part.to - part.from;
  }
}

}  // namespace

ArrayExchange::ArrayExchange(Group& group, BufferPool& pool, Traffic traffic, exchange::Pace pace)
    : traffic_(std::move(traffic)),
      portions_(traffic_.local ? ceil_div(traffic_.local->bytes, kPortion) : 0),
      engine_(group, kOperation, pool, streams_of(), pace) {}

exchange::Stream ArrayExchange::stream_of(const PairMessage& message, bool is_send) const {
  exchange::Stream stream;
  stream.peer = message.peer;
  stream.bytes = message.bytes;
  stream.is_direct = message.direct.has_value();
  stream.is_direct_there = message.is_direct_there;
  if (message.direct) {
    stream.place = [this, &message, is_send](exchange::Range range) { return place_of(message, is_send, range); };
  }
  if (is_send) {
    stream.pack = [this, &message](exchange::Range range, std::byte* buffer) { pack(message, range, buffer); };
  } else {
    stream.unpack = [this, &message](exchange::Range range, const std::byte* buffer) {
      unpack(message, range, buffer);
    };
  }
  return stream;
}

exchange::Streams ArrayExchange::streams_of() const {
  exchange::Streams streams;
  for (const PairMessage& message : traffic_.sends) streams.sends.push_back(stream_of(message, true));
  for (const PairMessage& message : traffic_.receives) streams.receives.push_back(stream_of(message, false));
  streams.local = {portions_, [this](Offset portion) { copy_portion(portion); }};
  return streams;
}

Status ArrayExchange::share_memory(const runtime::Runtime& with, std::string_view host) {
  return engine_.share_memory(
      {.is_on = with.settings->get("WEIR_REDIST_SHARED") != "0", .host = host, .random = with.random});
}

Status ArrayExchange::reserve(std::size_t arrays) {
  const Status status = engine_.reserve(static_cast<Offset>(arrays));
  if (status.is_ok()) return status;
  return {status.code(), concat(status.message(), ": limit them with Options::max_buffer_bytes")};
}

Status ArrayExchange::begin(std::span<const Arrays> arrays) {
  arrays_.assign(arrays.begin(), arrays.end());
  Offset bytes = traffic_.local ? traffic_.local->bytes : 0;
  for (const PairMessage& message : traffic_.receives) bytes += message.bytes;
  const auto count = static_cast<Offset>(arrays_.size());
  bypass_cache_ = bytes * count >= kLargeTarget;
  return engine_.begin(count);
}

std::byte* ArrayExchange::place_of(const PairMessage& message, bool is_send, exchange::Range range) const {
  const Arrays& arrays = arrays_[static_cast<std::size_t>(range.from / message.bytes)];
  const Offset at = *message.direct + range.from % message.bytes;
  if (!is_send) return static_cast<std::byte*>(arrays.target) + at;
  return const_cast<std::byte*>(static_cast<const std::byte*>(arrays.source) + at);  // MPI_Isend only reads
}

void ArrayExchange::pack(const PairMessage& message, exchange::Range range, std::byte* buffer) const {
  for_arrays(message.bytes, range, [&](std::size_t array, Range part, Offset at) {
    message.plan.run({arrays_[array].source, 0}, {buffer + at, part.from}, part, {.threads = 1, .bypass_cache = false});
  });
}

void ArrayExchange::unpack(const PairMessage& message, exchange::Range range, const std::byte* buffer) const {
  for_arrays(message.bytes, range, [&](std::size_t array, Range part, Offset at) {
    message.plan.run({buffer + at, part.from}, {arrays_[array].target, 0}, part,
                     {.threads = 1, .bypass_cache = bypass_cache_});
  });
}

void ArrayExchange::copy_portion(Offset portion) const {
  const LocalCopy& local = *traffic_.local;
  const Offset index = portion % portions_;
  const Offset size = ceil_div(local.range.to - local.range.from, portions_);
  const Range part{local.range.from + index * size, std::min(local.range.to, local.range.from + (index + 1) * size)};
  const Arrays& memory = arrays_[static_cast<std::size_t>(portion / portions_)];
  local.plan.run({memory.source, 0}, {memory.target, 0}, part, {.threads = 1, .bypass_cache = bypass_cache_});
}

}  // namespace weir::redist::internal
