#include <weir/scalapack/internal/matrix_exchange.h>

#include <algorithm>
#include <cstring>

namespace weir::scalapack::internal {

namespace {

constexpr Offset kLine = 64;
// An odd number of cache lines, so that buffers side by side do not compete for the same places in the cache.
constexpr Offset kLongestSegment = 4095 * kLine;
constexpr Offset kShortestSegment = 127 * kLine;
constexpr Offset kBuffersOfAll = Offset{64} << 20;
constexpr int kDepth = 2;

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

std::optional<Offset> ColumnStream::contiguous(exchange::Range range) const {
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
void ColumnStream::for_columns(exchange::Range range, Action action) const {
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

void ColumnStream::gather(exchange::Range range, const std::byte* array, std::byte* buffer) const {
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

void ColumnStream::scatter(exchange::Range range, const std::byte* buffer, std::byte* array) const {
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

MatrixExchange::MatrixExchange(mpi::Communicator& group, BufferPool& pool, Traffic traffic)
    : traffic_(std::move(traffic)),
      // Between messages, about as much as a segment at a time.
      portion_columns_(traffic_.local ? std::max<Offset>(1, segment_bytes(group.size()) / traffic_.local->column_bytes)
                                      : 1),
      engine_(group, "p?gemr2d", pool, streams_of(), {segment_bytes(group.size()), kDepth, 0, 0}) {}

exchange::Stream MatrixExchange::stream_of(const ColumnStream& columns) const {
  exchange::Stream stream;
  stream.peer = columns.peer;
  stream.bytes = columns.bytes();
  if (columns.is_send) {
    stream.place = [this, &columns](exchange::Range range) {
      const std::optional<Offset> at = columns.contiguous(range);
      return at ? const_cast<std::byte*>(a_ + *at) : nullptr;  // MPI_Isend only reads
    };
    stream.pack = [this, &columns](exchange::Range range, std::byte* buffer) { columns.gather(range, a_, buffer); };
  } else {
    stream.place = [this, &columns](exchange::Range range) {
      const std::optional<Offset> at = columns.contiguous(range);
      return at ? b_ + *at : nullptr;
    };
    stream.unpack = [this, &columns](exchange::Range range, const std::byte* buffer) {
      columns.scatter(range, buffer, b_);
    };
  }
  return stream;
}

exchange::Streams MatrixExchange::streams_of() const {
  exchange::Streams streams;
  for (const ColumnStream& columns : traffic_.receives) streams.receives.push_back(stream_of(columns));
  for (const ColumnStream& columns : traffic_.sends) streams.sends.push_back(stream_of(columns));
  if (traffic_.local) {
    streams.local = {ceil_div(traffic_.local->columns, portion_columns_),
                     [this](Offset portion) { copy_portion(portion); }};
  }
  return streams;
}

void MatrixExchange::copy_portion(Offset portion) const {
  const LocalCopy& local = *traffic_.local;
  const Offset first = portion * portion_columns_;
  local.run(a_, b_, {first, std::min(local.columns, first + portion_columns_)});
}

Status MatrixExchange::run(const std::byte* a, std::byte* b) {
  a_ = a;
  b_ = b;
  WEIR_RETURN_IF_ERROR(engine_.reserve(1));
  WEIR_RETURN_IF_ERROR(engine_.begin(1));
  for (;;) {
    WEIR_TRY(const bool is_done, engine_.advance(true));
    if (is_done) break;
  }
  engine_.release();  // for other plans
  return Status::ok();
}

}  // namespace weir::scalapack::internal
