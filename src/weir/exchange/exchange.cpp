#include <weir/exchange/exchange.h>

#include <algorithm>

#include <weir/base/backoff.h>
#include <weir/base/text.h>
#include <weir/exchange/internal/shared_routes.h>

namespace weir::exchange {

namespace {

constexpr Offset kLine = 64;
constexpr Offset kPage = 4096;
// With two ranks on one host, segments of 1 MiB and more came closer to the bound of redist_bench than those of 256 KiB
// and less; which of the longer ones is best was lost in the noise.  Short, then, for the sake of buffers.
constexpr Offset kBestSegment = 32767 * kLine;
constexpr Offset kBestSlot = 2047 * kLine;  // what is packed is unpacked before it leaves the cache
constexpr int kBestSlots = 4;
constexpr int kTag = 0;            // messages of one pair do not overtake each other
constexpr int kLooksBetween = 64;  // for each question whether a wait takes too long

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

using internal::Ring;
using internal::RingShape;
using internal::SharedRoutes;

Pace pace_of(Offset bytes_per_stream) {
  if (bytes_per_stream == 0) return {kBestSegment, 2, kBestSlot, kBestSlots};
  if (bytes_per_stream < 2 * kLine) return {bytes_per_stream, 1, bytes_per_stream, 1};
  const Offset half = odd_lines(bytes_per_stream / 2);
  return {std::min(kBestSegment, half), 2, std::min(kBestSlot, half), 2};
}

Exchange::Segments::Segments(const Stream& stream, Offset messages, const Pace& pace)
    : message_(stream.bytes),
      segment_(pace.segment_bytes),
      is_merged_(messages > 1 && stream.bytes < pace.segment_bytes) {
  if (is_merged_) {
    message_ *= messages;
    messages = 1;
  } else if (stream.is_direct && stream.is_direct_there) {
    segment_ = kLongest;
  }
  per_message_ = ceil_div(message_, segment_);
  count_ = per_message_ * messages;
}

Exchange::Segments::Segments(const Stream& stream, Offset messages, const RingShape& ring)
    : message_(stream.bytes * messages),
      segment_(ring.slot_bytes),
      per_message_(ceil_div(message_, segment_)),
      count_(per_message_),
      is_merged_(true) {}

Range Exchange::Segments::at(Offset index) const {
  const Offset start = index / per_message_ * message_;
  const Offset from = index % per_message_ * segment_;
  return {start + from, start + std::min(from + segment_, message_)};
}

Offset Exchange::Segments::longest() const { return std::min(segment_, message_); }

Exchange::Exchange(mpi::Communicator& group, std::string call, BufferPool& pool, Streams streams, Pace pace)
    : group_(group), call_(std::move(call)), pool_(pool), streams_(std::move(streams)), pace_(pace) {}

Exchange::~Exchange() {
  // Whatever is still under way may yet be written to the buffers.
  if (open_ > 0) memory_.leak();
}

Status Exchange::check(int code, const char* function) const {
  return code == MPI_SUCCESS ? Status::ok() : mpi::check_mpi(code, concat(call_, ": ", function));
}

// The action gets a stream, whether it is a send, and its ring if it has one.
template <typename Action>
void Exchange::for_streams(Action action) const {
  for (std::size_t i = 0; i < streams_.receives.size(); ++i) action(streams_.receives[i], false, ring_of(i, false));
  for (std::size_t i = 0; i < streams_.sends.size(); ++i) action(streams_.sends[i], true, ring_of(i, true));
}

Status Exchange::share_memory(const Sharing& sharing) {
  std::vector<internal::RingRequest> rings;
  std::vector<int> senders;
  for (const Stream& stream : streams_.sends) rings.push_back({stream.peer, ring_shape(stream)});
  for (const Stream& stream : streams_.receives) senders.push_back(stream.peer);
  WEIR_TRY(SharedRoutes routes, SharedRoutes::connect(group_, call_, rings, senders, sharing));
  shared_ = std::make_unique<SharedRoutes>(std::move(routes));
  return Status::ok();
}

// Short streams get short slots, but not so short that many messages would crawl.
RingShape Exchange::ring_shape(const Stream& stream) const {
  const Offset bytes = std::min(pace_.slot_bytes, std::max(stream.bytes, kPage));
  return {bytes, distance(bytes), pace_.slots};
}

Ring* Exchange::ring_of(std::size_t index, bool is_send) const {
  if (!shared_) return nullptr;
  return is_send ? shared_->send_ring(index) : shared_->receive_ring(index);
}

Exchange::Segments Exchange::segments_of(const Stream& stream, const Ring* ring, Offset messages) const {
  return ring != nullptr ? Segments(stream, messages, ring->shape()) : Segments(stream, messages, pace_);
}

Offset Exchange::segments_of(std::size_t index, bool is_send) const {
  const Stream& stream = is_send ? streams_.sends[index] : streams_.receives[index];
  return segments_of(stream, ring_of(index, is_send), 1).count();
}

Offset Exchange::slot_bytes(const Stream& stream, Offset messages) const {
  const Segments segments(stream, messages, pace_);
  if (stream.is_direct && !segments.is_merged()) return 0;
  return distance(segments.longest());
}

Offset Exchange::buffer_bytes(Offset messages) const {
  Offset bytes = message_buffer_bytes(messages);
  for_streams([&](const Stream&, bool is_send, const Ring* ring) {
    if (ring != nullptr && is_send) bytes += ring->shape().buffer_bytes();  // the receiver has no buffer of its own
  });
  return bytes;
}

Offset Exchange::message_buffer_bytes(Offset messages) const {
  Offset bytes = 0;
  for_streams([&](const Stream& stream, bool, const Ring* ring) {
    if (ring != nullptr) return;
    const Segments segments(stream, messages, pace_);
    bytes += slot_bytes(stream, messages) * std::min<Offset>(pace_.depth, segments.count());
  });
  return bytes;
}

Status Exchange::reserve(Offset messages) {
  const auto bytes = static_cast<std::size_t>(message_buffer_bytes(messages));
  if (is_active_ || bytes <= memory_.size()) return Status::ok();
  release();
  memory_ = pool_.try_take(bytes);
  if (memory_) return Status::ok();
  return {ErrorCode::kIoError, concat(call_, ": no memory for buffers of ", bytes, " bytes")};
}

void Exchange::release() { memory_ = BufferPool::Buffer(); }

void Exchange::make_channels() {
  channels_.clear();
  std::byte* free = memory_.data();
  slots_left_ = slots_to_fill_ = slots_filled_ = 0;
  for_streams([&](const Stream& stream, bool is_send, Ring* ring) {
    Channel channel{&stream, is_send, ring, segments_of(stream, ring, messages_), 0, nullptr, 0};
    if (ring != nullptr) {
      slots_left_ += channel.segments.count();
      slots_to_fill_ += is_send ? channel.segments.count() : 0;
    } else {
      channel.buffer = free;
      channel.slot_bytes = slot_bytes(stream, messages_);
      free += channel.slot_bytes * std::min<Offset>(pace_.depth, channel.segments.count());
    }
    channels_.push_back(channel);
  });
  requests_.assign(channels_.size() * static_cast<std::size_t>(pace_.depth), MPI_REQUEST_NULL);
  in_slot_.resize(requests_.size());
  completed_.resize(requests_.size());
  open_ = 0;
}

Status Exchange::begin(Offset messages) {
  messages_ = messages;
  make_channels();
  portion_ = 0;
  portions_ = streams_.local.portions * messages;
  is_active_ = true;
  Status status = start_all();
  move_slots();
  is_broken_ = !status.is_ok();
  return status;
}

// All first receives, so that nothing arrives unexpected; then the first segment of every send, the second, ...:
// neighbours in the source are read together.
Status Exchange::start_all() {
  const auto depth = static_cast<std::size_t>(pace_.depth);
  const std::size_t receives = streams_.receives.size();
  for (std::size_t slot = 0; slot < depth; ++slot) {
    for (std::size_t i = 0; i < receives; ++i) WEIR_RETURN_IF_ERROR(start_next(i, slot));
  }
  for (std::size_t slot = 0; slot < depth; ++slot) {
    for (std::size_t i = receives; i < channels_.size(); ++i) WEIR_RETURN_IF_ERROR(start_next(i, slot));
  }
  return Status::ok();
}

Status Exchange::start_next(std::size_t index, std::size_t slot) {
  Channel& channel = channels_[index];
  if (channel.ring != nullptr || channel.next == channel.segments.count()) return Status::ok();
  const Stream& stream = *channel.stream;
  const std::size_t request = index * static_cast<std::size_t>(pace_.depth) + slot;
  const Range range = channel.segments.at(channel.next++);
  const int bytes = static_cast<int>(range.to - range.from);
  std::byte* place = stream.place && !channel.segments.is_merged() ? stream.place(range) : nullptr;
  const bool is_packed = place == nullptr;
  if (is_packed) place = channel.buffer + static_cast<Offset>(slot) * channel.slot_bytes;
  in_slot_[request] = {range, is_packed};
  if (channel.is_send) {
    if (is_packed) stream.pack(range, place);
    WEIR_RETURN_IF_ERROR(
        check(MPI_Isend(place, bytes, MPI_BYTE, stream.peer, kTag, group_.comm(), &requests_[request]), "MPI_Isend"));
  } else {
    WEIR_RETURN_IF_ERROR(
        check(MPI_Irecv(place, bytes, MPI_BYTE, stream.peer, kTag, group_.comm(), &requests_[request]), "MPI_Irecv"));
  }
  ++open_;
  return Status::ok();
}

// The request of this slot is complete: uses what came, and starts the next segment in it.
Status Exchange::finish_slot(std::size_t index) {
  const std::size_t number = index / static_cast<std::size_t>(pace_.depth);
  const std::size_t slot = index % static_cast<std::size_t>(pace_.depth);
  const Channel& channel = channels_[number];
  --open_;
  if (!channel.is_send && in_slot_[index].is_packed) {
    channel.stream->unpack(in_slot_[index].range, channel.buffer + static_cast<Offset>(slot) * channel.slot_bytes);
  }
  return start_next(number, slot);
}

// \returns how many requests were found complete and dealt with.
Result<int> Exchange::poll() {
  if (open_ == 0) return 0;
  int count = 0;
  WEIR_RETURN_IF_ERROR(check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                          completed_.data(), MPI_STATUSES_IGNORE),
                             "MPI_Testsome"));
  for (int i = 0; i < count; ++i) {
    WEIR_RETURN_IF_ERROR(finish_slot(static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])));
  }
  return count;
}

bool Exchange::fill_slot(Channel& channel) {
  std::byte* slot = channel.ring->slot_to_fill();
  if (slot == nullptr) return false;
  channel.stream->pack(channel.segments.at(channel.next), slot);
  channel.ring->fill();
  ++slots_filled_;
  return true;
}

bool Exchange::empty_slot(Channel& channel) {
  const std::byte* slot = channel.ring->slot_to_empty();
  if (slot == nullptr) return false;
  channel.stream->unpack(channel.segments.at(channel.next), slot);
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

// Local work reads memory between what is packed: done at the same time, the memory is read once.
bool Exchange::is_local_behind() const {
  return static_cast<double>(portion_) * static_cast<double>(slots_to_fill_) <
         static_cast<double>(slots_filled_) * static_cast<double>(portions_);
}

void Exchange::run_portion() {
  streams_.local.run(portion_);
  if (++portion_ == portions_) portions_ = 0;
}

// \returns 0 if there was nothing to do.
Result<int> Exchange::work() {
  WEIR_TRY(int done, poll());
  done += move_slots();
  if (portions_ > 0 && done == 0) {
    run_portion();
    ++done;
  }
  while (portions_ > 0 && is_local_behind()) run_portion();
  return done;
}

// Where all goes through rings, the rank that we wait for may itself wait for a message of the caller's that only moves
// while this process is inside of MPI.
void Exchange::drive_mpi() const {
  int is_there = 0;
  if (open_ == 0) MPI_Iprobe(MPI_ANY_SOURCE, kTag, group_.comm(), &is_there, MPI_STATUS_IGNORE);
}

bool Exchange::is_done() const { return open_ == 0 && slots_left_ == 0 && portions_ == 0; }

Result<bool> Exchange::step(bool may_block) {
  mpi::Communicator::Watch watch(group_, call_);
  int looks = 0;
  for (Backoff backoff(Backoff::kBytes); !is_done(); backoff.pause()) {
    WEIR_TRY(const int done, work());
    if (done > 0) break;
    drive_mpi();
    if (!may_block) break;
    if (++looks % kLooksBetween == 0) WEIR_RETURN_IF_ERROR(watch.look());
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

}  // namespace weir::exchange
