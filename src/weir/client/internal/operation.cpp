#include <weir/client/internal/operation.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <weir/client/internal/bound_view.h>

namespace weir::client::internal {

namespace {

constexpr Offset kSliceBytes = static_cast<Offset>(BufferPool::kBytes);
// Enough to keep a target busy while the next slice is packed, and few enough that buffers stay bounded.
constexpr int kMostBusy = 4;
// Slices start at multiples of this, so that array elements stay whole.
constexpr Offset kSliceAlign = 4096;

}  // namespace

Operation::Operation(std::shared_ptr<BoundView> view, std::shared_ptr<Binding> binding, const ViewAccess& access,
                     std::vector<BoundSubfile*> parts, Offset moved)
    : view_(std::move(view)), binding_(std::move(binding)), access_(access), parts_(std::move(parts)), moved_(moved) {}

Operation::~Operation() { (void)finish(); }

Counters& Operation::counters() const { return view_->counters(); }

void Operation::cut(BoundSubfile& part, Range range) {
  const Offset bytes = part.route.bytes(range);
  if (bytes == 0) return;
  Offset middle = (range.from + (range.to - range.from) / 2) / kSliceAlign * kSliceAlign;
  if (middle <= range.from) middle = range.from + (range.to - range.from) / 2;
  if (bytes > kSliceBytes) {
    cut(part, {range.from, middle});
    return cut(part, {middle, range.to});
  }
  waiting_.push_back(slices_.size());
  slices_.push_back({&part, range, bytes, part.route.direct_a(range), {}, 0});
}

void Operation::start() {
  if (view_ == nullptr) return;
  std::vector<BoundSubfile*> complex;
  std::vector<BoundSubfile*> known;
  for (BoundSubfile* part : parts_) (part->route.is_listed() ? complex : known).push_back(part);
  if (!complex.empty()) fail(move_pieces(*binding_, {&access_, 1}, complex, counters()));
  if (!status_.is_ok()) return;
  for (BoundSubfile* part : known) cut(*part, access_.range());
  start_slices();
}

void Operation::start_slices() {
  // The next one whose target is not busy, so that all targets are.
  for (std::size_t left = waiting_.size(); left > 0; --left) {
    const std::size_t index = waiting_.front();
    waiting_.pop_front();
    if (busy_[slices_[index].part->server] < kMostBusy) {
      start_slice(index);
    } else {
      waiting_.push_back(index);
    }
  }
}

void Operation::start_slice(std::size_t index) {
  Slice& slice = slices_[index];
  Session& session = binding_->session();
  const auto size = static_cast<std::size_t>(slice.bytes);
  std::byte* memory = nullptr;
  if (slice.direct) {
    memory = access_.data + (*slice.direct - access_.from);
  } else {
    slice.buffer = session.buffers().take(size);
    memory = slice.buffer.data();
    Counters::add(counters().gathered_bytes, slice.bytes);
  }
  net::Call call;
  const std::int64_t timeout_ms = session.timeout_ms();
  auto range = std::make_unique<wire::Range>(slice.range.from, slice.range.to);
  if (access_.is_write) {
    if (!slice.direct) {
      slice.part->route.pack_a({access_.data, access_.from}, slice.range, memory);
    }
    wire::WriteViewT table;
    table.view = slice.part->view_id;
    table.range = std::move(range);
    table.file_end = binding_->file_end(slice.range);
    call.head = wire::encode_request(std::move(table), timeout_ms);
    call.body = {memory, size};
  } else {
    wire::ReadViewT table;
    table.view = slice.part->view_id;
    table.range = std::move(range);
    call.head = wire::encode_request(std::move(table), timeout_ms);
    call.sink = {memory, size};
  }
  Counters::add(counters().messages, 1);
  Counters::add(counters().index_bytes, static_cast<std::int64_t>(call.head.size()));
  call.done = [this, index](Result<net::Reply> reply) {
    binding_->session().tell(has_ended_, [&] {
      ended_.push_back({index, std::move(reply)});
      if (watcher_ != nullptr) binding_->session().queue(*watcher_);
      return true;
    });
  };
  ++busy_[slice.part->server];
  ++under_way_;
  session.start({slice.part->server, std::move(call), 0, binding_->announcement(*slice.part, counters()),
                 &binding_->file()->capability()});
}

void Operation::set_watcher(Watcher& watcher) {
  if (binding_) binding_->session().locked([&] { watcher_ = &watcher; });
}

void Operation::collect() {
  if (under_way_ == 0) return;
  std::vector<Ended> ended;
  binding_->session().locked([&] { ended.swap(ended_); });
  for (const Ended& item : ended) {
    Slice& slice = slices_[item.slice];
    --under_way_;
    --busy_[slice.part->server];
    end(slice, item.slice, item.result);
  }
}

void Operation::end(Slice& slice, std::size_t index, const Result<net::Reply>& result) {
  Session& session = binding_->session();
  auto head = session.decode(slice.part->server, result);
  // The connection is gone, or does not know the view: once more, and the server is told of the view again.
  const ErrorCode code = head.status().code();
  const bool is_lost = code == ErrorCode::kUnavailable || code == ErrorCode::kNotFound;
  if (is_lost && ++slice.attempts == 1 && status_.is_ok()) {
    if (code == ErrorCode::kNotFound) slice.part->known = 0;
    if (access_.is_write) {  // sent, and now once more
      Counters::add(counters().moved_bytes, slice.bytes);
      Counters::add(counters().extra_bytes, slice.bytes);
    }
    slice.buffer = {};
    return waiting_.push_back(index);
  }
  if (code == ErrorCode::kNotFound) return fail(binding_->refusal(*slice.part, head.status()));
  if (!head.is_ok()) return fail(head.status());
  if (head->answer.AsDone() == nullptr)
    return fail(corrupt(session.name_of(slice.part->server) + ": not an answer to this"));
  if (access_.is_write) {
    binding_->file()->unsynced()->note(slice.part->server, head->boot);
  } else {
    if (static_cast<Offset>(result->body_bytes) != slice.bytes) {
      return fail(corrupt(
          concat(session.name_of(slice.part->server), ": ", result->body_bytes, " bytes instead of ", slice.bytes)));
    }
    if (!slice.direct) {
      slice.part->route.unpack_a(slice.buffer.data(), slice.range, {access_.data, access_.from});
    }
  }
  slice.buffer = {};
  Counters::add(counters().moved_bytes, slice.bytes);
  moved_ += slice.bytes;
}

void Operation::fail(Status status) {
  if (status.is_ok()) return;
  if (status_.is_ok()) status_ = view_->about(access_.is_write, status);
  waiting_.clear();
}

bool Operation::test() {
  if (is_done()) return true;
  binding_->session().progress();
  collect();
  start_slices();
  if (is_done()) return true;
  binding_->session().keep_going();
  return false;
}

Status Operation::finish() {
  while (!is_done()) {
    if (under_way_ > 0) binding_->session().wait(has_ended_);
    collect();
    start_slices();
  }
  // Without a view, the operation failed before it had moved anything.
  if (status_.code() == ErrorCode::kStale && view_ != nullptr) {
    Counters::add(counters().extra_bytes, std::exchange(moved_, 0));
  }
  return status_;
}

Status Operation::wait() {
  Status status = finish();
  if (status.code() != ErrorCode::kStale || view_ == nullptr) return status;
  // Without its view, the operation has its final status: a second wait() returns the same.
  const std::shared_ptr<BoundView> view = std::move(view_);
  status_ = view->access_again(binding_, access_);
  return status_;
}

// ---------------------------------------------------------------- pieces

namespace {

struct Piece {
  Offset offset;
  std::span<std::byte> memory;
};

// One message under construction or under way.
struct PieceMessage {
  std::vector<Piece> pieces;
  std::size_t bytes = 0;
  Offset file_end = 0;
  BufferPool::Buffer buffer;
  BoundSubfile* part = nullptr;
};

class PieceMover {
 public:
  PieceMover(Binding& binding, bool is_write, Counters& counters)
      : binding_(binding), is_write_(is_write), counters_(counters) {}

  Status move(BoundSubfile& part, std::span<const ViewAccess> accesses) {
    PieceMessage message;
    message.part = &part;
    for (const ViewAccess& access : accesses) {
      message.file_end = std::max(message.file_end, binding_.file_end(access.range()));
      layout::PieceCursor cursor = part.route.pieces(access.range());
      while (const auto piece = cursor.next()) {
        WEIR_RETURN_IF_ERROR(
            add(message, piece->b, access.data + (piece->a - access.from), static_cast<std::size_t>(piece->length)));
      }
    }
    return flush(message);
  }

  Status finish() {
    std::vector<Outgoing> calls;
    for (PieceMessage& message : messages_) calls.push_back(call_for(message));
    binding_.session().run(calls, Repeat::kSafe);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      WEIR_TRY(const wire::ReplyHeadT head, binding_.session().decode(calls[i].server, *calls[i].result));
      if (is_write_) binding_.file()->unsynced()->note(calls[i].server, head.boot);
      if (!is_write_) WEIR_RETURN_IF_ERROR(scatter(messages_[i], calls[i]));
      Counters::add(counters_.moved_bytes, static_cast<std::int64_t>(messages_[i].bytes));
    }
    messages_.clear();
    return Status::ok();
  }

 private:
  static constexpr std::size_t kMostPieces = 4096;
  static constexpr std::size_t kMostMessages = 8;

  Status add(PieceMessage& message, Offset offset, std::byte* memory, std::size_t length) {
    while (length > 0) {
      if (message.pieces.size() == kMostPieces || message.bytes == BufferPool::kBytes) {
        WEIR_RETURN_IF_ERROR(flush(message));
      }
      const std::size_t part = std::min(length, BufferPool::kBytes - message.bytes);
      append(message, offset, memory, part);
      offset += static_cast<Offset>(part);
      memory += part;
      length -= part;
    }
    return Status::ok();
  }

  static void append(PieceMessage& message, Offset offset, std::byte* memory, std::size_t length) {
    message.bytes += length;
    if (!message.pieces.empty()) {
      Piece& last = message.pieces.back();
      const bool goes_on = last.offset + static_cast<Offset>(last.memory.size()) == offset &&
                           last.memory.data() + last.memory.size() == memory;
      if (goes_on) {
        last.memory = {last.memory.data(), last.memory.size() + length};
        return;
      }
    }
    message.pieces.push_back({offset, {memory, length}});
  }

  Status flush(PieceMessage& message) {
    if (message.pieces.empty()) return Status::ok();
    PieceMessage next;
    next.file_end = message.file_end;
    next.part = message.part;
    messages_.push_back(std::move(message));
    message = std::move(next);
    return messages_.size() < kMostMessages ? Status::ok() : finish();
  }

  Outgoing call_for(PieceMessage& message) {
    Session& session = binding_.session();
    std::vector<wire::Range> ranges;
    for (const Piece& piece : message.pieces) {
      ranges.emplace_back(piece.offset, piece.offset + static_cast<Offset>(piece.memory.size()));
    }
    std::span<std::byte> body = message.pieces.front().memory;
    if (message.pieces.size() > 1) {
      message.buffer = session.buffers().take(message.bytes);
      body = {message.buffer.data(), message.bytes};
      if (is_write_) gather(message);
      Counters::add(counters_.gathered_bytes, static_cast<std::int64_t>(message.bytes));
    }
    Outgoing call{message.part->server, {}, {}, {}, {}, &binding_.file()->capability()};
    if (is_write_) {
      wire::WritePiecesT table;
      table.subfile = to_wire(message.part->subfile);
      table.pieces = std::move(ranges);
      table.file_end = message.file_end;
      call.head = wire::encode_request(std::move(table), session.timeout_ms(), message.part->store);
      call.body = body;
    } else {
      wire::ReadPiecesT table;
      table.subfile = to_wire(message.part->subfile);
      table.pieces = std::move(ranges);
      call.head = wire::encode_request(std::move(table), session.timeout_ms(), message.part->store);
      call.sink = body;
    }
    Counters::add(counters_.messages, 1);
    Counters::add(counters_.index_bytes, static_cast<std::int64_t>(call.head.size()));
    return call;
  }

  static void gather(PieceMessage& message) {
    std::byte* at = message.buffer.data();
    for (const Piece& piece : message.pieces) {
      std::memcpy(at, piece.memory.data(), piece.memory.size());
      at += piece.memory.size();
    }
  }

  Status scatter(PieceMessage& message, const Outgoing& call) {
    if ((*call.result)->body_bytes != message.bytes) {
      return corrupt(concat(binding_.session().name_of(call.server), ": ", (*call.result)->body_bytes,
                            " bytes instead of ", message.bytes));
    }
    if (message.pieces.size() == 1) return Status::ok();
    const std::byte* at = message.buffer.data();
    for (const Piece& piece : message.pieces) {
      std::memcpy(piece.memory.data(), at, piece.memory.size());
      at += piece.memory.size();
    }
    return Status::ok();
  }

  Binding& binding_;
  bool is_write_;
  Counters& counters_;
  std::vector<PieceMessage> messages_;
};

}  // namespace

Status move_pieces(Binding& binding, std::span<const ViewAccess> accesses, std::span<BoundSubfile* const> parts,
                   Counters& counters) {
  if (accesses.empty()) return Status::ok();
  PieceMover mover(binding, accesses.front().is_write, counters);
  for (BoundSubfile* part : parts) WEIR_RETURN_IF_ERROR(mover.move(*part, accesses));
  return mover.finish();
}

}  // namespace weir::client::internal
