#include <weir/scalapack/internal/exchange.h>

#include <algorithm>
#include <cstring>

#include <weir/group/wait.h>

namespace weir::scalapack::internal {

namespace {

using group::check_mpi;

constexpr Offset kLine = 64;
// An odd number of cache lines, so that buffers side by side do not compete for the same places in the cache.
constexpr Offset kLongestSegment = 4095 * kLine;
constexpr Offset kShortestSegment = 127 * kLine;
constexpr Offset kBuffersOfAll = Offset{64} << 20;
constexpr int kTag = 0;  // the communicator is ours alone, and messages of one pair do not overtake each other

// The run that holds a column of the message.
const ColumnRun& run_at(const ColumnRuns& runs, Offset column) {
  const auto after = std::upper_bound(runs->begin(), runs->end(), column,
                                      [](Offset value, const ColumnRun& run) { return value < run.message; });
  return *std::prev(after);
}

}  // namespace

Offset segment_bytes(int processes) {
  const Offset lines = kBuffersOfAll / (4 * Offset{processes}) / kLine;
  return std::clamp((lines | 1) * kLine, kShortestSegment, kLongestSegment);
}

std::optional<Offset> Stream::contiguous(Range range) const {
  if (!direct) return std::nullopt;
  const Offset first = range.from / column_bytes;
  const Offset last = (range.to - 1) / column_bytes;
  const ColumnRun& run = run_at(runs, first);
  const bool is_one_piece = first == last || (column_bytes == place.stride && last < run.message + run.count);
  if (!is_one_piece) return std::nullopt;
  const Offset column = (is_send ? run.a : run.b) + first - run.message;
  return place.start + column * place.stride + *direct + range.from % column_bytes;
}

// action(offset of the column in the array, part of the column, offset of that part in the range)
template <typename Action>
void Stream::for_columns(Range range, Action action) const {
  Offset column = range.from / column_bytes;
  Offset at = range.from;
  for (const ColumnRun* run = &run_at(runs, column); at < range.to; ++run) {
    Offset array = place.start + ((is_send ? run->a : run->b) + column - run->message) * place.stride;
    for (; column < run->message + run->count && at < range.to; ++column, array += place.stride) {
      const Offset start = column * column_bytes;
      const Range part{at - start, std::min(range.to - start, column_bytes)};
      action(array, part, at - range.from);
      at = start + part.to;
    }
  }
}

void Stream::gather(Range range, const std::byte* array, std::byte* buffer) const {
  if (direct) {
    for_columns(range, [&](Offset column, Range part, Offset at) {
      std::memcpy(buffer + at, array + column + *direct + part.from, static_cast<std::size_t>(part.to - part.from));
    });
    return;
  }
  for_columns(range, [&](Offset column, Range part, Offset at) {
    rows.run({array + column, 0}, {buffer + at, part.from}, part, {.threads = 1, .bypass_cache = false});
  });
}

void Stream::scatter(Range range, const std::byte* buffer, std::byte* array) const {
  if (direct) {
    for_columns(range, [&](Offset column, Range part, Offset at) {
      std::memcpy(array + column + *direct + part.from, buffer + at, static_cast<std::size_t>(part.to - part.from));
    });
    return;
  }
  for_columns(range, [&](Offset column, Range part, Offset at) {
    rows.run({buffer + at, part.from}, {array + column, 0}, part, {.threads = 1, .bypass_cache = false});
  });
}

void LocalCopy::run(const std::byte* from, std::byte* to, Range part) const {
  Offset column = part.from;
  for (const ColumnRun* next = &run_at(runs, column); column < part.to; ++next) {
    const Offset end = std::min(part.to, next->message + next->count);
    for (; column < end; ++column) {
      const std::byte* const source = from + a.start + (next->a + column - next->message) * a.stride;
      std::byte* const target = to + b.start + (next->b + column - next->message) * b.stride;
      rows.run({source, 0}, {target, 0}, range, {.threads = 1, .bypass_cache = false});
    }
  }
}

Exchange::Exchange(MPI_Comm comm, int processes, Traffic traffic)
    : comm_(comm), traffic_(std::move(traffic)), segment_(segment_bytes(processes)) {
  const std::size_t streams = traffic_.streams.size();
  requests_.assign(streams * kDepth, MPI_REQUEST_NULL);
  completed_.resize(streams * kDepth);
  slots_.resize(streams * kDepth);
  next_.resize(streams);
  for (const Stream& stream : traffic_.streams) {
    buffer_bytes_ += static_cast<Offset>(kDepth) * std::min(segment_, stream.bytes());
  }
}

Status Exchange::run(const std::byte* a, std::byte* b, std::span<std::byte> buffer) {
  a_ = a;
  b_ = b;
  open_ = 0;
  copied_ = 0;
  std::fill(next_.begin(), next_.end(), 0);
  std::byte* free = buffer.data();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i] = {{}, free, false};
    free += std::min(segment_, traffic_.streams[i / kDepth].bytes());
  }
  // Receives come first, so that nothing arrives unexpected.
  for (std::size_t i = 0; i < slots_.size(); ++i) WEIR_RETURN_IF_ERROR(start_next(i));
  const Offset columns = traffic_.local ? traffic_.local->columns : 0;
  while (open_ > 0 || copied_ < columns) {
    WEIR_TRY(const int handled, poll(copied_ == columns));
    if (handled == 0 && copied_ < columns) copy_portion();
  }
  return Status::ok();
}

Status Exchange::start_next(std::size_t index) {
  const Stream& stream = traffic_.streams[index / kDepth];
  Offset& next = next_[index / kDepth];
  if (next == stream.bytes()) return Status::ok();
  Slot& slot = slots_[index];
  slot.range = {next, std::min(next + segment_, stream.bytes())};
  next = slot.range.to;
  const int bytes = static_cast<int>(slot.range.to - slot.range.from);
  const std::optional<Offset> direct = stream.contiguous(slot.range);
  slot.is_packed = !direct;
  ++open_;
  if (!stream.is_send) {
    void* const place = direct ? b_ + *direct : slot.buffer;
    return check_mpi(MPI_Irecv(place, bytes, MPI_BYTE, stream.peer, kTag, comm_, &requests_[index]),
                     "p?gemr2d: MPI_Irecv");
  }
  if (!direct) stream.gather(slot.range, a_, slot.buffer);
  const void* const place = direct ? a_ + *direct : slot.buffer;
  return check_mpi(MPI_Isend(place, bytes, MPI_BYTE, stream.peer, kTag, comm_, &requests_[index]),
                   "p?gemr2d: MPI_Isend");
}

Status Exchange::finish(std::size_t index) {
  const Stream& stream = traffic_.streams[index / kDepth];
  const Slot& slot = slots_[index];
  --open_;
  if (!stream.is_send && slot.is_packed) stream.scatter(slot.range, slot.buffer, b_);
  return start_next(index);
}

// \returns how many segments were found complete and dealt with.
Result<int> Exchange::poll(bool may_block) {
  int count = 0;
  const auto size = static_cast<int>(requests_.size());
  if (open_ == 0) return 0;
  if (may_block) {
    WEIR_RETURN_IF_ERROR(check_mpi(MPI_Waitsome(size, requests_.data(), &count, completed_.data(), MPI_STATUSES_IGNORE),
                                   "p?gemr2d: MPI_Waitsome"));
  } else {
    WEIR_RETURN_IF_ERROR(check_mpi(MPI_Testsome(size, requests_.data(), &count, completed_.data(), MPI_STATUSES_IGNORE),
                                   "p?gemr2d: MPI_Testsome"));
  }
  for (int i = 0; i < count; ++i) {
    WEIR_RETURN_IF_ERROR(finish(static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])));
  }
  return count;
}

// Between messages, about as much as a segment at a time.
void Exchange::copy_portion() {
  const LocalCopy& local = *traffic_.local;
  const Offset columns = std::max<Offset>(1, segment_ / local.column_bytes);
  const Range part{copied_, std::min(local.columns, copied_ + columns)};
  local.run(a_, b_, part);
  copied_ = part.to;
}

}  // namespace weir::scalapack::internal
