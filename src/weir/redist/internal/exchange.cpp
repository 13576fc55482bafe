#include <weir/redist/internal/exchange.h>

#include <algorithm>
#include <new>

#include <weir/base/backoff.h>
#include <weir/base/text.h>

namespace weir::redist::internal {

namespace {

constexpr Offset kLine = 64;
constexpr Offset kPage = 4096;
// With two ranks on one host, segments of 1 MiB and more came closer to the bound of redist_bench than those of 256 KiB
// and less; which of the longer ones is best was lost in the noise.  Short, then, for the sake of buffers.
constexpr Offset kBestSegment = 32767 * kLine;
constexpr Offset kPortion = Offset{1} << 17;  // of a local copy: short, so that no message waits long
constexpr Offset kBestSlot = 2047 * kLine;    // what is packed is unpacked before it leaves the cache
constexpr int kBestSlots = 4;
constexpr Offset kLargeTarget = Offset{16} << 20;  // more than caches keep until the caller reads it
constexpr int kTag = 0;  // the communicator is ours alone, and messages of one pair do not overtake each other

// The longest segment of at most `bytes` whose length is an odd number of lines; short ones as they are.
Offset odd_lines(Offset bytes) {
  if (bytes < kPage) return bytes;
  const Offset lines = bytes / kLine;
  return (lines - (lines % 2 == 0 ? 1 : 0)) * kLine;
}

// Distance between buffers of `bytes`: odd lines again, never more than the segment that it was made for.
Offset distance(Offset bytes) {
  if (bytes < kPage) return bytes;
  const Offset lines = ceil_div(bytes, kLine);
  return (lines + (lines % 2 == 0 ? 1 : 0)) * kLine;
}

}  // namespace

Pace pace_of(Offset bytes_per_route) {
  if (bytes_per_route == 0) return {kBestSegment, 2, kBestSlot, kBestSlots};
  if (bytes_per_route < 2 * kLine) return {bytes_per_route, 1, bytes_per_route, 1};
  const Offset half = odd_lines(bytes_per_route / 2);
  return {std::min(kBestSegment, half), 2, std::min(kBestSlot, half), 2};
}

Segments::Segments(const Route& route, Offset arrays, const Pace& pace)
    : message_(route.bytes), segment_(pace.segment_bytes), is_merged_(arrays > 1 && route.bytes < pace.segment_bytes) {
  if (is_merged_) {
    message_ *= arrays;
    arrays = 1;
  } else if (route.direct && route.is_direct_there) {
    segment_ = kLongest;
  }
  per_message_ = ceil_div(message_, segment_);
  count_ = per_message_ * arrays;
}

Segments::Segments(const Route& route, Offset arrays, const RingShape& ring)
    : message_(route.bytes * arrays),
      segment_(ring.slot_bytes),
      per_message_(ceil_div(message_, segment_)),
      count_(per_message_),
      is_merged_(true) {}

Range Segments::at(Offset index) const {
  const Offset start = index / per_message_ * message_;
  const Offset from = index % per_message_ * segment_;
  return {start + from, start + std::min(from + segment_, message_)};
}

Offset Segments::longest() const { return std::min(segment_, message_); }

Exchange::Exchange(MPI_Comm comm, Traffic traffic, Pace pace)
    : comm_(comm), traffic_(std::move(traffic)), pace_(pace) {}

Exchange::~Exchange() {
  // Whatever is still on its way may yet be written to the buffers.
  if (open_ > 0) static_cast<void>(memory_.release());
}

// The action gets a route, whether it is a send, and its ring if it has one.
template <typename Action>
void Exchange::for_routes(Action action) const {
  for (std::size_t i = 0; i < traffic_.receives.size(); ++i) action(traffic_.receives[i], false, ring_of(i, false));
  for (std::size_t i = 0; i < traffic_.sends.size(); ++i) action(traffic_.sends[i], true, ring_of(i, true));
}

Status Exchange::share_memory(Group& group, std::string_view host) {
  std::vector<RingWish> wishes;
  std::vector<int> senders;
  for (const Route& route : traffic_.sends) wishes.push_back({route.peer, ring_shape(route)});
  for (const Route& route : traffic_.receives) senders.push_back(route.peer);
  WEIR_TRY(SharedRoutes routes, SharedRoutes::connect(group, wishes, senders, host));
  shared_ = std::make_unique<SharedRoutes>(std::move(routes));
  return Status::ok();
}

// Short streams get short slots, but not so short that many arrays would crawl.
RingShape Exchange::ring_shape(const Route& route) const {
  const Offset bytes = std::min(pace_.slot_bytes, std::max(route.bytes, kPage));
  return {bytes, distance(bytes), pace_.slots};
}

Ring* Exchange::ring_of(std::size_t index, bool is_send) const {
  if (!shared_) return nullptr;
  return is_send ? shared_->send_ring(index) : shared_->receive_ring(index);
}

Segments Exchange::segments_of(const Route& route, const Ring* ring, Offset arrays) const {
  return ring != nullptr ? Segments(route, arrays, ring->shape()) : Segments(route, arrays, pace_);
}

Offset Exchange::messages_of(std::size_t index, bool is_send) const {
  const Route& route = is_send ? traffic_.sends[index] : traffic_.receives[index];
  return segments_of(route, ring_of(index, is_send), 1).count();
}

Offset Exchange::slot_bytes(const Route& route, Offset arrays) const {
  const Segments segments(route, arrays, pace_);
  if (route.direct && !segments.is_merged()) return 0;
  return distance(segments.longest());
}

Offset Exchange::buffer_bytes(Offset arrays) const {
  Offset bytes = message_buffer_bytes(arrays);
  for_routes([&](const Route&, bool is_send, const Ring* ring) {
    if (ring != nullptr && is_send) bytes += ring->shape().buffer_bytes();  // the receiver has no buffer of its own
  });
  return bytes;
}

Offset Exchange::message_buffer_bytes(Offset arrays) const {
  Offset bytes = 0;
  for_routes([&](const Route& route, bool, const Ring* ring) {
    if (ring != nullptr) return;
    const Segments segments(route, arrays, pace_);
    bytes += slot_bytes(route, arrays) * std::min<Offset>(pace_.depth, segments.count());
  });
  return bytes;
}

Status Exchange::reserve(std::size_t arrays) {
  const Offset bytes = message_buffer_bytes(static_cast<Offset>(arrays));
  if (is_active_ || bytes <= memory_bytes_) return Status::ok();
  memory_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
  memory_bytes_ = memory_ ? bytes : 0;
  if (memory_) return Status::ok();
  return {ErrorCode::kIoError, concat("redistribution: no memory for buffers of ", bytes,
                                      " bytes: limit them with Options::max_buffer_bytes")};
}

bool Exchange::is_packed(const Channel& channel) const {
  return !channel.route->direct || channel.segments.is_merged();
}

void Exchange::make_channels() {
  channels_.clear();
  const auto arrays = static_cast<Offset>(arrays_.size());
  std::byte* free = memory_.get();
  slots_left_ = slots_to_fill_ = slots_filled_ = 0;
  for_routes([&](const Route& route, bool is_send, Ring* ring) {
    Channel channel{&route, is_send, ring, segments_of(route, ring, arrays), 0, nullptr, 0};
    if (ring != nullptr) {
      slots_left_ += channel.segments.count();
      slots_to_fill_ += is_send ? channel.segments.count() : 0;
    } else {
      channel.buffer = free;
      channel.slot_bytes = slot_bytes(route, arrays);
      free += channel.slot_bytes * std::min<Offset>(pace_.depth, channel.segments.count());
    }
    channels_.push_back(channel);
  });
  requests_.assign(channels_.size() * static_cast<std::size_t>(pace_.depth), MPI_REQUEST_NULL);
  in_slot_.assign(requests_.size(), 0);
  completed_.resize(requests_.size());
  open_ = 0;
}

void Exchange::make_portions() {
  portion_ = 0;
  portions_ = traffic_.local ? ceil_div(traffic_.local->bytes, kPortion) : 0;
  Offset bytes = traffic_.local ? traffic_.local->bytes : 0;
  for (const Route& route : traffic_.receives) bytes += route.bytes;
  bypass_cache_ = bytes * static_cast<Offset>(arrays_.size()) >= kLargeTarget;
}

Status Exchange::begin(std::span<const Arrays> arrays) {
  arrays_.assign(arrays.begin(), arrays.end());
  make_channels();
  make_portions();
  is_active_ = true;
  Status status = start_sends();
  move_slots();
  is_broken_ = !status.is_ok();
  return status;
}

// All first receives, so that nothing arrives unexpected; then the first segment of every send, the second, ...:
// neighbours in the source are read together.
Status Exchange::start_sends() {
  const auto depth = static_cast<std::size_t>(pace_.depth);
  const std::size_t receives = traffic_.receives.size();
  for (std::size_t slot = 0; slot < depth; ++slot) {
    for (std::size_t i = 0; i < receives; ++i) WEIR_RETURN_IF_ERROR(start_next(i, slot));
  }
  for (std::size_t slot = 0; slot < depth; ++slot) {
    for (std::size_t i = receives; i < channels_.size(); ++i) WEIR_RETURN_IF_ERROR(start_next(i, slot));
  }
  return Status::ok();
}

void* Exchange::place_of(const Channel& channel, std::size_t slot, Range range) const {
  if (is_packed(channel)) return channel.buffer + static_cast<Offset>(slot) * channel.slot_bytes;
  const Arrays& arrays = arrays_[static_cast<std::size_t>(range.from / channel.route->bytes)];
  const Offset at = *channel.route->direct + range.from % channel.route->bytes;
  if (!channel.is_send) return static_cast<std::byte*>(arrays.target) + at;
  return const_cast<std::byte*>(static_cast<const std::byte*>(arrays.source) + at);  // MPI_Isend only reads
}

Status Exchange::start_next(std::size_t index, std::size_t slot) {
  Channel& channel = channels_[index];
  if (channel.ring != nullptr || channel.next == channel.segments.count()) return Status::ok();
  const std::size_t request = index * static_cast<std::size_t>(pace_.depth) + slot;
  const Range range = channel.segments.at(channel.next);
  const int bytes = static_cast<int>(range.to - range.from);
  void* place = place_of(channel, slot, range);
  in_slot_[request] = channel.next++;
  const int peer = channel.route->peer;
  if (channel.is_send) {
    if (is_packed(channel)) pack(channel, range, static_cast<std::byte*>(place));
    WEIR_RETURN_IF_ERROR(group::check_mpi(MPI_Isend(place, bytes, MPI_BYTE, peer, kTag, comm_, &requests_[request]),
                                          "redistribution: MPI_Isend"));
  } else {
    WEIR_RETURN_IF_ERROR(group::check_mpi(MPI_Irecv(place, bytes, MPI_BYTE, peer, kTag, comm_, &requests_[request]),
                                          "redistribution: MPI_Irecv"));
  }
  ++open_;
  return Status::ok();
}

void Exchange::pack(const Channel& channel, Range range, std::byte* buffer) const {
  const Offset bytes = channel.route->bytes;
  for (Offset at = range.from; at < range.to;) {
    const Offset array = at / bytes;
    const Range part{at - array * bytes, std::min(bytes, range.to - array * bytes)};
    channel.route->plan.run({arrays_[static_cast<std::size_t>(array)].source, 0},
                            {buffer + (at - range.from), part.from}, part, {.threads = 1, .bypass_cache = false});
    at += part.to - part.from;
  }
}

void Exchange::unpack(const Channel& channel, Range range, const std::byte* buffer) const {
  const Offset bytes = channel.route->bytes;
  for (Offset at = range.from; at < range.to;) {
    const Offset array = at / bytes;
    const Range part{at - array * bytes, std::min(bytes, range.to - array * bytes)};
    channel.route->plan.run({buffer + (at - range.from), part.from},
                            {arrays_[static_cast<std::size_t>(array)].target, 0}, part,
                            {.threads = 1, .bypass_cache = bypass_cache_});
    at += part.to - part.from;
  }
}

// The request of this slot is complete: uses what came, and starts the next segment in it.
Status Exchange::finish_slot(std::size_t index) {
  const std::size_t number = index / static_cast<std::size_t>(pace_.depth);
  const std::size_t slot = index % static_cast<std::size_t>(pace_.depth);
  const Channel& channel = channels_[number];
  --open_;
  if (!channel.is_send && is_packed(channel)) {
    const Range range = channel.segments.at(in_slot_[index]);
    unpack(channel, range, static_cast<const std::byte*>(place_of(channel, slot, range)));
  }
  return start_next(number, slot);
}

// \returns how many requests were found complete and dealt with.
Result<int> Exchange::poll() {
  if (open_ == 0) return 0;
  int count = 0;
  WEIR_RETURN_IF_ERROR(group::check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                                     completed_.data(), MPI_STATUSES_IGNORE),
                                        "redistribution: MPI_Testsome"));
  for (int i = 0; i < count; ++i) {
    WEIR_RETURN_IF_ERROR(finish_slot(static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])));
  }
  return count;
}

bool Exchange::fill_slot(Channel& channel) {
  std::byte* slot = channel.ring->slot_to_fill();
  if (slot == nullptr) return false;
  pack(channel, channel.segments.at(channel.next), slot);
  channel.ring->fill();
  ++slots_filled_;
  return true;
}

bool Exchange::empty_slot(Channel& channel) {
  const std::byte* slot = channel.ring->slot_to_empty();
  if (slot == nullptr) return false;
  unpack(channel, channel.segments.at(channel.next), slot);
  channel.ring->empty();
  return true;
}

// At most one slot of every ring.  \returns how many.
int Exchange::move_slots() {
  if (slots_left_ == 0) return 0;
  int moved = 0;
  for (Channel& channel : channels_) {
    if (channel.ring == nullptr || channel.next == channel.segments.count()) continue;
    if (!(channel.is_send ? fill_slot(channel) : empty_slot(channel))) continue;
    ++channel.next;
    ++moved;
  }
  slots_left_ -= moved;
  return moved;
}

// What stays lies between what is packed from the same memory: done at the same time, the memory is read once.
bool Exchange::is_local_behind() const {
  const Offset all = portions_ * static_cast<Offset>(arrays_.size());
  return static_cast<double>(portion_) * static_cast<double>(slots_to_fill_) <
         static_cast<double>(slots_filled_) * static_cast<double>(all);
}

void Exchange::copy_portion() {
  const LocalCopy& local = *traffic_.local;
  const auto arrays = static_cast<Offset>(arrays_.size());
  const Offset array = portion_ / portions_;
  const Offset index = portion_ % portions_;
  const Offset size = ceil_div(local.range.to - local.range.from, portions_);
  const Range part{local.range.from + index * size, std::min(local.range.to, local.range.from + (index + 1) * size)};
  const Arrays& memory = arrays_[static_cast<std::size_t>(array)];
  local.plan.run({memory.source, 0}, {memory.target, 0}, part, {.threads = 1, .bypass_cache = bypass_cache_});
  if (++portion_ == portions_ * arrays) portions_ = 0;
}

// \returns 0 if there was nothing to do.
Result<int> Exchange::work() {
  WEIR_TRY(int done, poll());
  done += move_slots();
  if (portions_ > 0 && done == 0) {
    copy_portion();
    ++done;
  }
  while (portions_ > 0 && is_local_behind()) copy_portion();
  return done;
}

// Where all goes through rings, the rank that we wait for may itself wait for a message of the caller's that only moves
// while this process is inside of MPI.
void Exchange::drive_mpi() const {
  int is_there = 0;
  if (open_ == 0) MPI_Iprobe(MPI_ANY_SOURCE, kTag, comm_, &is_there, MPI_STATUS_IGNORE);
}

bool Exchange::is_done() const { return open_ == 0 && slots_left_ == 0 && portions_ == 0; }

Result<bool> Exchange::step(bool may_block) {
  for (Backoff backoff(Backoff::kBytes); !is_done(); backoff.pause()) {
    WEIR_TRY(const int done, work());
    if (done > 0) break;
    drive_mpi();
    if (!may_block) break;
  }
  return is_done();
}

Result<bool> Exchange::advance(bool may_block) {
  if (!is_active_) return true;
  Result<bool> is_done = step(may_block);
  if (!is_done.is_ok()) is_broken_ = true;
  if (!is_done.is_ok() || *is_done) is_active_ = false;
  return is_done;
}

}  // namespace weir::redist::internal
