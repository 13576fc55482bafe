#include <weir/server/internal/io_service.h>

#include <algorithm>
#include <functional>
#include <utility>

#include <unistd.h>

#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/server/internal/about.h>
#include <weir/share/handover.h>
#include <weir/storage/blocking.h>

namespace weir::server::internal {

namespace {

// A shorter body is rather copied than that others have to wait while it is sent.
constexpr Offset kDirectReadFrom = 65536;
constexpr std::size_t kKeptBufferBytes = std::size_t{64} << 20;
constexpr std::size_t kMostListed = 65536;
constexpr Offset kMostExpectedBytes = Offset{1} << 30;
// In one message; each is some bytes of the head and some of memory.
constexpr std::size_t kMostPiecesInMessage = std::size_t{1} << 19;

std::string name_of(storage::SubfileId id) { return concat("subfile ", id.element, " of file ", id.file); }

Result<storage::SubfileId> to_id(const wire::Subfile* subfile) {
  if (subfile == nullptr || subfile->file() == 0) return invalid_argument("the request names no subfile");
  return storage::SubfileId{subfile->file(), subfile->element()};
}

Result<transfer::Range> to_range(const wire::Range* range, Offset most) {
  if (range == nullptr) return invalid_argument("the request names no range");
  if (range->from() < 0 || range->from() > range->to() || range->to() > kMaxBytes ||
      range->to() - range->from() > most) {
    return invalid_argument(
        concat("[", range->from(), ", ", range->to(), ") is not a range of at most ", most, " bytes in [0, 2^62)"));
  }
  return transfer::Range{range->from(), range->to()};
}

Status check_end(std::string_view what, Offset end) {
  if (end >= 0 && end <= kMaxBytes) return Status::ok();
  return out_of_range(concat(what, " ", end, " is not in [0, 2^62]"));
}

Status check_body(const ServerCall& call, Offset bytes) {
  if (std::cmp_equal(call.request.body_bytes(), bytes)) return Status::ok();
  return invalid_argument(concat("the body has ", call.request.body_bytes(), " bytes, the request is about ", bytes));
}

Status check_buffered(std::size_t bytes) {
  if (bytes <= kMostBodyBytes) return Status::ok();
  return invalid_argument(concat(bytes, " bytes in one message; at most ", kMostBodyBytes, ": send them in parts"));
}

/// Pieces as they follow each other in the message.
Result<std::vector<MessagePiece>> to_pieces(const std::vector<wire::Range>& ranges, Offset& bytes) {
  if (ranges.size() > kMostPiecesInMessage) {
    return invalid_argument(concat(ranges.size(), " pieces in one message; at most ", kMostPiecesInMessage));
  }
  std::vector<MessagePiece> pieces;
  pieces.reserve(ranges.size());
  bytes = 0;
  for (const wire::Range& range : ranges) {
    WEIR_TRY(const transfer::Range piece, to_range(&range, kMaxBytes));
    pieces.push_back({piece.from, piece.to - piece.from, bytes});
    WEIR_TRY(bytes, checked_add(bytes, piece.to - piece.from));
  }
  return pieces;
}

Result<std::unique_ptr<wire::Descriptor>> shown(int descriptor) {
  WEIR_TRY(const share::Shown file, share::Shown::of(descriptor));
  return std::make_unique<wire::Descriptor>(file.device, file.file, file.number);
}

}  // namespace

// Fails the call and returns if the expression has no value.
#define WEIR_CALL_TRY(call, declaration, expression) \
  WEIR_CALL_TRY_INNER(WEIR_CONCAT(weir_result_, __LINE__), call, declaration, expression)
#define WEIR_CALL_TRY_INNER(temporary, call, declaration, expression) \
  auto temporary = (expression);                                      \
  if (!temporary.is_ok()) return (call)->fail(temporary.status());    \
  declaration = std::move(temporary).value()
#define WEIR_CALL_CHECK(call, expression) \
  if (const Status weir_status = (expression); !weir_status.is_ok()) return (call)->fail(weir_status)

IoService::IoService(storage::Store& store, AccessControl& access, Options options)
    : store_(store),
      access_(access),
      can_(store.capabilities()),
      options_(std::move(options)),
      io_(store),
      buffers_(std::make_shared<Buffers>(std::max(options_.buffer_bytes, kMostBodyBytes), kKeptBufferBytes)) {}

bool IoService::handle(const CallPtr& call) {
  const wire::OperationUnion& operation = call->head.operation;
  switch (operation.type) {
    case wire::Operation::Present: call->answer(access_.present(*call, operation.AsPresent()->capability)); return true;
    case wire::Operation::RegisterView: register_view(call, *operation.AsRegisterView()); return true;
    case wire::Operation::ForgetView:
      views_.forget(call->request.peer(), operation.AsForgetView()->view);
      call->answer(wire::DoneT{});
      return true;
    case wire::Operation::ReadView: read_view(call, *operation.AsReadView()); return true;
    case wire::Operation::WriteView: write_view(call, *operation.AsWriteView()); return true;
    case wire::Operation::ReadPieces: read_pieces(call, *operation.AsReadPieces()); return true;
    case wire::Operation::WritePieces: write_pieces(call, *operation.AsWritePieces()); return true;
    case wire::Operation::Truncate: truncate(call, *operation.AsTruncate()); return true;
    case wire::Operation::Reserve: reserve(call, *operation.AsReserve()); return true;
    case wire::Operation::Sync: sync(call, *operation.AsSync()); return true;
    case wire::Operation::SyncSubfiles: sync_subfiles(call); return true;
    case wire::Operation::RemoveSubfile: remove(call, *operation.AsRemoveSubfile()); return true;
    case wire::Operation::Inspect: inspect(call, *operation.AsInspect()); return true;
    case wire::Operation::ListSubfiles: list(call, *operation.AsListSubfiles()); return true;
    case wire::Operation::UsageOf: usage(call, *operation.AsUsageOf()); return true;
    case wire::Operation::Describe: describe(call, *operation.AsDescribe()); return true;
    case wire::Operation::MeterSpace: meter(call, *operation.AsMeterSpace()); return true;
    case wire::Operation::Share: share(call, *operation.AsShare()); return true;
    case wire::Operation::Fence: fence(call, *operation.AsFence()); return true;
    default: return false;
  }
}

void IoService::drop(net::PeerId peer) {
  views_.drop(peer);
  access_.drop(peer);

  for (auto& [id, fence] : fences_) {
    if (fence.peer == peer && !fence.lost) fence.lost = options_.runtime.clock->now();
  }
}

storage::IoBatch IoService::sync_dirty() const {
  storage::IoBatch syncs;
  for (const SubfileId id : dirty_) syncs.operations.push_back({storage::op::Sync{id}});
  return syncs;
}

// Those that failed are due again.
Status IoService::note_synced(const storage::IoBatch& syncs) {
  for (const storage::Operation& sync : syncs.operations) {
    if (sync.status.is_ok()) continue;
    const SubfileId id = std::get<storage::op::Sync>(sync.what).id;
    WEIR_LOG_ERROR("sync of {}: {}", name_of(id), sync.status.message());
    if (!removed_.contains(id)) dirty_.insert(id);
  }
  return syncs.status();
}

Status IoService::sync_all() {
  storage::IoBatch syncs = sync_dirty();
  dirty_.clear();
  return note_synced(storage::Blocking(store_, options_.runtime).run(std::move(syncs)));
}

// ---------------------------------------------------------------- turns

void IoService::in_turn(const CallPtr& call, SubfileId id, Use use, Turns::Kind kind, std::function<void()> work,
                        Offset end) {
  turns_.take(id, kind, [this, call, id, use, end, work = std::move(work)] {
    if (removed_.contains(id)) {
      call->fail({ErrorCode::kStale, concat(name_of(id), " was removed: open the file again")});
    } else if (!call->is_wanted()) {
      call->fail(
          {ErrorCode::kUnavailable, concat(name_of(id), ": the caller gave up while others were at work on it")});
    } else if (use == Use::kWrite && fence_of(id) != nullptr) {
      call->fail({ErrorCode::kStale, concat(name_of(id), " is being given a new layout: write when that is done")});
    } else {
      if (use == Use::kWrite) dirty_.insert(id);
      if (end == 0 || space_ == nullptr || !space_->is_metered()) return work();
      return space_->grow(id, end, [this, call, id, work](const Status& status) {
        if (status.is_ok()) return work();
        call->fail(status);
        turns_.leave(id);
      });
    }
    turns_.leave(id);
  });
}

template <typename Work, typename Then>
void IoService::answer_in_turn(const CallPtr& call, const wire::Subfile* subfile, Use use, Work work, Then then,
                               Offset end) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(subfile));
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  const auto run = [this, call, id, work = std::move(work), then = std::move(then)] {
    start([id, work] { return work(id); },
          [this, call, id, then](auto result) {
            auto answer = then(std::move(result));
            turns_.leave(id);
            call->answer(std::move(answer));
          });
  };
  in_turn(call, id, use, Turns::Kind::kAlone, run, end);
}

// ---------------------------------------------------------------- reading

void IoService::read_contiguous(const CallPtr& call, SubfileId id, Range range) {
  const Offset bytes = range.to - range.from;
  auto read = [this, id, range, is_wanted = call->request.is_wanted()](std::span<std::byte> into) {
    return storage::run(store_, storage::op::Read{id, {{range.from, into}}}, is_wanted);
  };
  if (bytes < kDirectReadFrom || !can_.mappable) return read_buffered(call, id, bytes, std::move(read));
  in_turn(call, id, Use::kRead, Turns::Kind::kAlone, [this, call, id, range, bytes, read] {
    const auto memory = store_.map(id, range.from, range.to, false);
    if (memory.is_ok() && *memory) return call->answer_body(**memory, [this, id] { turns_.leave(id); });
    turns_.leave(id);
    if (!memory.is_ok()) return call->fail(memory.status());
    read_buffered(call, id, bytes, read);
  });
}

void IoService::read_buffered(const CallPtr& call, SubfileId id, Offset bytes, ReadInto read) {
  if (bytes == 0) return call->answer(wire::DoneT{});
  WEIR_CALL_CHECK(call, check_buffered(static_cast<std::size_t>(bytes)));
  const net::PeerId peer = call->request.peer();
  auto with_buffer = [this, call, id, peer, read = std::move(read)](std::shared_ptr<Buffer> buffer) mutable {
    auto work = [this, call, id, peer, read = std::move(read), buffer = std::move(buffer)]() mutable {
      const std::size_t size = buffer->bytes().size();
      auto finish = [this, call, id, peer, buffer](const Status& status) {
        leave_store(peer, buffer->bytes().size());
        turns_.leave(id);
        if (!status.is_ok()) return call->fail(status);
        call->answer_body(buffer->bytes(), [buffer] {});
      };
      auto task = [read = std::move(read), buffer = std::move(buffer)] { return read(buffer->bytes()); };
      use_store(peer, size, [task = std::move(task), finish = std::move(finish)]() mutable {
        start(std::move(task), std::move(finish));
      });
    };
    in_turn(call, id, Use::kRead, Turns::Kind::kTogether, std::move(work));
  };
  buffers_->ask(peer, static_cast<std::size_t>(bytes), std::move(with_buffer));
}

void IoService::read_view(const CallPtr& call, const wire::ReadViewT& request) {
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  WEIR_CALL_TRY(call, const auto view, views_.find(call->request.peer(), request.view));
  WEIR_CALL_CHECK(call, access_.check(*call, view->subfile.file, kMayRead));
  WEIR_CALL_TRY(call, const Range range, to_range(request.range.get(), kMostViewRange));
  const Offset bytes = view->packing.bytes(range);
  if (const std::optional<Offset> at = view->packing.direct_b(range)) {
    return read_contiguous(call, view->subfile, {*at, *at + bytes});
  }
  const auto is_wanted = call->request.is_wanted();
  read_buffered(call, view->subfile, bytes, [this, view, range, is_wanted](std::span<std::byte> into) {
    return io_.read(view->subfile, view->packing, range, into, is_wanted);
  });
}

void IoService::read_pieces(const CallPtr& call, const wire::ReadPiecesT& request) {
  Offset bytes = 0;
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check(*call, id.file, kMayRead));
  WEIR_CALL_TRY(call, const std::vector<MessagePiece> pieces, to_pieces(request.pieces, bytes));
  if (pieces.size() == 1) return read_contiguous(call, id, {pieces[0].offset, pieces[0].offset + bytes});
  const auto is_wanted = call->request.is_wanted();
  read_buffered(call, id, bytes, [this, id, pieces, is_wanted](std::span<std::byte> into) {
    return io_.read(id, pieces, into, is_wanted);
  });
}

// ---------------------------------------------------------------- writing

void IoService::write_contiguous(const CallPtr& call, SubfileId id, Offset from, Offset file_end) {
  const Offset to = from + static_cast<Offset>(call->request.body_bytes());
  auto write = [this, id, from, file_end, is_wanted = call->request.is_wanted()](std::span<const std::byte> body) {
    return storage::run(store_, storage::op::Write{id, {{from, body}}, file_end}, is_wanted);
  };
  // Of a write without bytes, the end of the file is what remains.
  const Offset end = from == to ? 0 : to;
  if (!can_.mappable || from == to) return write_buffered(call, id, Turns::Kind::kTogether, end, std::move(write));
  auto receive = [this, call, id, from, to, file_end, write] {
    auto memory = store_.map(id, from, to, true);
    if (memory.is_ok() && *memory) {
      if (Status begun = store_.begin_write(id, from, to, true); !begun.is_ok()) memory = std::move(begun);
    }
    if (memory.is_ok() && *memory) {
      return call->request.receive(**memory, [this, call, id, to, file_end](const Status& status) {
        // Told even if the sender was lost on the way: some of its bytes may be there.
        store_.note_written(id, to, file_end);
        turns_.leave(id);
        call->answer(status);
      });
    }
    turns_.leave(id);
    if (!memory.is_ok()) return call->fail(memory.status());
    write_buffered(call, id, Turns::Kind::kTogether, to, write);
  };
  in_turn(call, id, Use::kWrite, Turns::Kind::kAlone, std::move(receive), end);
}

void IoService::write_buffered(const CallPtr& call, SubfileId id, Turns::Kind kind, Offset end, WriteFrom write) {
  const std::size_t bytes = call->request.body_bytes();
  WEIR_CALL_CHECK(call, check_buffered(bytes));
  const net::PeerId peer = call->request.peer();
  auto run = [this, call, id, kind, end, peer, bytes,
              write = std::move(write)](const std::shared_ptr<Buffer>& buffer) mutable {
    auto work = [this, call, id, peer, bytes, write = std::move(write), buffer]() mutable {
      auto finish = [this, call, id, peer, bytes](const Status& status) {
        dirty_.insert(id);  // it may have been synced while only part of this was written
        leave_store(peer, bytes);
        turns_.leave(id);
        call->answer(status);
      };
      auto task = [write = std::move(write), buffer = std::move(buffer)] {
        return write(buffer == nullptr ? std::span<std::byte>() : buffer->bytes());
      };
      use_store(peer, bytes, [task = std::move(task), finish = std::move(finish)]() mutable {
        start(std::move(task), std::move(finish));
      });
    };
    in_turn(call, id, Use::kWrite, kind, std::move(work), end);
  };
  if (bytes == 0) return run(nullptr);
  buffers_->ask(peer, bytes, [call, run = std::move(run)](const std::shared_ptr<Buffer>& buffer) mutable {
    call->request.receive(buffer->bytes(), [call, run = std::move(run), buffer](const Status& received) mutable {
      received.is_ok() ? run(buffer) : call->fail(received);
    });
  });
}

void IoService::write_view(const CallPtr& call, const wire::WriteViewT& request) {
  WEIR_CALL_TRY(call, const auto view, views_.find(call->request.peer(), request.view));
  WEIR_CALL_CHECK(call, access_.check(*call, view->subfile.file, kMayWrite));
  WEIR_CALL_TRY(call, const Range range, to_range(request.range.get(), kMostViewRange));
  WEIR_CALL_CHECK(call, check_end("end of file", request.file_end));
  WEIR_CALL_CHECK(call, check_body(*call, view->packing.bytes(range)));
  call->counters.bytes_in += call->request.body_bytes();
  if (call->request.body_bytes() == 0) return write_contiguous(call, view->subfile, 0, request.file_end);
  if (const std::optional<Offset> at = view->packing.direct_b(range)) {
    return write_contiguous(call, view->subfile, *at, request.file_end);
  }
  const auto write = [this, view, range, end = request.file_end,
                      is_wanted = call->request.is_wanted()](std::span<const std::byte> body) {
    return io_.write(view->subfile, view->packing, range, body, end, is_wanted);
  };
  const Offset end = view->packing.extent_b(range).to;
  write_buffered(call, view->subfile, Turns::Kind::kAlone, end, write);
}

void IoService::write_pieces(const CallPtr& call, const wire::WritePiecesT& request) {
  Offset bytes = 0;
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check(*call, id.file, kMayWrite));
  WEIR_CALL_TRY(call, const std::vector<MessagePiece> pieces, to_pieces(request.pieces, bytes));
  WEIR_CALL_CHECK(call, check_end("end of file", request.file_end));
  WEIR_CALL_CHECK(call, check_body(*call, bytes));
  call->counters.bytes_in += call->request.body_bytes();
  if (bytes == 0) return write_contiguous(call, id, 0, request.file_end);
  if (pieces.size() == 1) return write_contiguous(call, id, pieces[0].offset, request.file_end);
  const auto write = [this, id, pieces, end = request.file_end, is_wanted = call->request.is_wanted()](
                         std::span<const std::byte> body) { return io_.write(id, pieces, body, end, is_wanted); };
  Offset last = 0;
  for (const MessagePiece& piece : pieces) last = std::max(last, piece.length == 0 ? 0 : piece.offset + piece.length);
  write_buffered(call, id, Turns::Kind::kAlone, last, write);
}

// ---------------------------------------------------------------- the rest

void IoService::register_view(const CallPtr& call, const wire::RegisterViewT& request) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check(*call, id.file, 0));
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  const bool is_limited = !call->request.identity().is_server;
  call->answer(views_.add(call->request.peer(), request, is_limited ? options_.most_views : Views::Most{}));
}

void IoService::truncate(const CallPtr& call, const wire::TruncateT& request) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check_repair(*call, id.file, kMayWrite));
  WEIR_CALL_CHECK(call, check_end("length", request.length));
  WEIR_CALL_CHECK(call, check_end("end of file", request.file_end));
  const auto truncate = [this, length = request.length, end = request.file_end,
                         is_wanted = call->request.is_wanted()](SubfileId subfile) {
    return storage::run(store_, storage::op::Truncate{subfile, length, end}, is_wanted);
  };
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  const auto run = [this, call, id, truncate, length = request.length] {
    start([id, truncate] { return truncate(id); },
          [this, call, id, length](const Status& status) {
            if (!status.is_ok() || space_ == nullptr || !space_->is_metered()) {
              turns_.leave(id);
              return call->answer(status);
            }
            space_->truncated(id, length, [call] { call->answer(wire::DoneT{}); });
            turns_.leave(id);
          });
  };
  in_turn(call, id, Use::kWrite, Turns::Kind::kAlone, run, request.length);
}

void IoService::reserve(const CallPtr& call, const wire::ReserveT& request) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check(*call, id.file, kMayWrite));
  WEIR_CALL_TRY(call, const Range range, to_range(request.range.get(), kMaxBytes));
  const auto reserve = [this, range, mapped = request.mapped,
                        is_wanted = call->request.is_wanted()](SubfileId subfile) -> Task<Status> {
    if (mapped) {
      const auto memory = store_.map(subfile, range.from, range.to, true);
      if (memory.is_ok() && *memory) co_return Status::ok();
    }
    co_return co_await storage::run(store_, storage::op::Reserve{subfile, range.from, range.to}, is_wanted);
  };
  answer_in_turn(call, request.subfile.get(), Use::kWrite, reserve, std::identity(),
                 range.from == range.to ? 0 : range.to);
}

// Names are made again from what is kept of files: only owners say what theirs are, and nobody that a file is another's.
Status IoService::may_describe(const ServerCall& call, SubfileId id, std::span<const std::uint8_t> about) const {
  WEIR_RETURN_IF_ERROR(access_.check_repair(call, id.file, kOwns));
  if (about.empty() || access_.check_administrator(call, "describe files of others").is_ok()) return Status::ok();
  WEIR_TRY(const wire::AboutT decoded, wire::decode_about(std::as_bytes(about)));
  const std::uint32_t uid = call.request.identity().uid;
  if (decoded.attributes->uid == uid) return Status::ok();
  return {ErrorCode::kPermission,
          concat("user ", uid, " may not describe data ", id.file, " as a file of user ", decoded.attributes->uid)};
}

void IoService::sync(const CallPtr& call, const wire::SyncT& request) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check_repair(*call, id.file, 0));
  WEIR_CALL_CHECK(call, check_about(id, request.about));
  std::vector<std::uint8_t> told;
  if (may_describe(*call, id, request.about).is_ok()) told = request.about;
  const auto sync = [this, about = std::move(told),
                     is_wanted = call->request.is_wanted()](SubfileId subfile) -> Task<Status> {
    WEIR_CO_RETURN_IF_ERROR(co_await keep_newer_about(store_, subfile, about));
    Status status = co_await storage::run(store_, storage::op::Sync{subfile}, is_wanted);
    if (status.is_ok()) dirty_.erase(subfile);
    co_return status;
  };
  answer_in_turn(call, request.subfile.get(), Use::kRead, sync);
}

void IoService::sync_subfiles(const CallPtr& call) {
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  storage::IoBatch syncs = sync_dirty();
  syncs.is_wanted = call->request.is_wanted();
  dirty_.clear();  // those that are written meanwhile are due again
  store_.submit(std::move(syncs), [this, call](const storage::IoBatch& done) { call->answer(note_synced(done)); });
}

void IoService::remove(const CallPtr& call, const wire::RemoveSubfileT& request) {
  WEIR_CALL_CHECK(call, access_.check_administrator(*call, "remove subfiles"));
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  if (removed_.contains(id)) return call->answer(wire::DoneT{});
  const auto remove = [this, is_wanted = call->request.is_wanted()](SubfileId subfile) -> Task<Status> {
    WEIR_CO_RETURN_IF_ERROR(co_await storage::run(store_, storage::op::Remove{subfile}, is_wanted));
    note_removed(subfile);
    if (space_ != nullptr && space_->is_metered()) space_->removed(subfile);
    if (!lower_fence(subfile)) co_return Status::ok();
    // Writers that still have the old layout must not make the subfile again, even if the server is restarted.
    kept_removed_.push_back(subfile);
    if (kept_removed_.size() > kMostKeptRemoved) kept_removed_.pop_front();
    (void)co_await keep_fences();
    co_return Status::ok();
  };
  answer_in_turn(call, request.subfile.get(), Use::kRead, remove);
}

void IoService::note_removed(SubfileId id) {
  dirty_.erase(id);
  removed_.insert(id);
  removed_in_order_.push_back(id);
  if (removed_in_order_.size() <= kMostRemoved) return;
  removed_.erase(removed_in_order_.front());
  removed_in_order_.pop_front();
}

void IoService::inspect(const CallPtr& call, const wire::InspectT& request) {
  WEIR_CALL_TRY(call, const SubfileId subfile, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check_repair(*call, subfile.file, 0));
  const auto look = [this, with_about = request.about,
                     is_wanted = call->request.is_wanted()](SubfileId id) -> Task<Result<wire::SubfileInfoT>> {
    WEIR_CO_TRY(const storage::SubfileInfo info, co_await storage::ask(store_, storage::op::Info{id}, is_wanted));
    wire::SubfileInfoT answer;
    answer.length = info.length;
    answer.file_end = info.file_end;
    answer.stored_bytes = info.stored_bytes;
    if (with_about) WEIR_CO_RETURN_IF_ERROR(co_await add_about(store_, id, answer));
    if (const Fence* fence = fence_of(id)) {
      answer.fence = fence->token;
      answer.fence_abandoned = is_abandoned(*fence);
    }
    co_return answer;
  };
  answer_in_turn(call, request.subfile.get(), Use::kRead, look);
}

void IoService::describe(const CallPtr& call, const wire::DescribeT& request) {
  WEIR_CALL_TRY(call, const SubfileId subfile, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check_repair(*call, subfile.file, kOwns));
  WEIR_CALL_CHECK(call, check_about(subfile, request.about));
  WEIR_CALL_CHECK(call, may_describe(*call, subfile, request.about));
  answer_in_turn(call, request.subfile.get(), Use::kRead,
                 [this, about = request.about](SubfileId id) { return keep_newer_about(store_, id, about); });
}

void IoService::list(const CallPtr& call, const wire::ListSubfilesT& request) {
  WEIR_CALL_CHECK(call, access_.check_administrator(*call, "list subfiles"));
  const bool is_first = request.after == nullptr;
  const SubfileId after = is_first ? SubfileId{} : SubfileId{request.after->file(), request.after->element()};
  const std::size_t most = request.limit == 0 ? kMostListed : std::min<std::size_t>(request.limit, kMostListed);
  const auto answer_part = [this, call, is_first, after, most](const Result<std::vector<SubfileId>>& listed) {
    WEIR_CALL_TRY(call, const std::vector<SubfileId> all, listed);
    wire::SubfilesT answer;
    for (const auto& [id, fence] : fences_) answer.fences.emplace_back(id.file, fence.token, id.element);
    auto next = is_first ? all.begin() : std::upper_bound(all.begin(), all.end(), after);
    for (; next != all.end() && answer.subfiles.size() < most; ++next)
      answer.subfiles.emplace_back(next->file, next->element);
    answer.is_complete = next == all.end();
    call->answer(std::move(answer));
  };
  start([this, is_wanted = call->request.is_wanted()] { return storage::ask(store_, storage::op::List{}, is_wanted); },
        answer_part);
}

void IoService::usage(const CallPtr& call, const wire::UsageOfT& request) {
  const auto look = [this, counts_stored = request.counts_stored,
                     is_wanted = call->request.is_wanted()]() -> Task<Result<wire::UsageT>> {
    WEIR_CO_TRY(const storage::Usage usage, co_await storage::ask(store_, storage::op::GetUsage{}, is_wanted));
    wire::UsageT answer;
    answer.capacity_bytes = usage.capacity_bytes;
    answer.used_bytes = usage.used_bytes;
    answer.subfiles = usage.subfiles;
    answer.disk = usage.disk;
    if (counts_stored) {
      WEIR_CO_TRY(answer.stored_bytes, co_await storage::ask(store_, storage::op::StoredBytes{}, is_wanted));
    }
    co_return answer;
  };
  start(look, [call](Result<wire::UsageT> answer) { call->answer(std::move(answer)); });
}

// ---------------------------------------------------------------- fences

IoService::Fence* IoService::fence_of(SubfileId id) {
  const auto found = fences_.find(id);
  if (found == fences_.end()) return nullptr;
  Fence& fence = found->second;
  if (fence.is_confirmed || !is_abandoned(fence)) return &fence;
  (void)lower_fence(id);  // it was not confirmed
  return nullptr;
}

bool IoService::is_abandoned(const Fence& fence) const {
  return fence.lost && options_.runtime.clock->now() - *fence.lost >= options_.fence_grace;
}

Task<Status> IoService::raise_fence(SubfileId id, std::uint64_t token, net::PeerId peer) {
  const Fence* other = fence_of(id);
  if (other != nullptr && other->token != token && !other->lost) {
    co_return Status(ErrorCode::kUnavailable, concat(name_of(id), ": another relayout of the file is under way"));
  }
  const bool was_confirmed = other != nullptr && other->is_confirmed;
  fences_[id] = {token, peer, false, {}};
  tell_fence(id, true);
  if (!was_confirmed) co_return Status::ok();
  co_return co_await keep_fences();
}

// The store keeps them in order: what it has last is what there was last.
Task<Status> IoService::keep_fences() {
  storage::op::KeepFences keep;
  for (const auto& [id, fence] : fences_) {
    if (fence.is_confirmed) keep.fences.push_back({id, fence.token});
  }
  for (const SubfileId id : kept_removed_) keep.fences.push_back({id, kRemovedToken});
  return storage::run(store_, std::move(keep));
}

void IoService::tell_fence(SubfileId id, bool is_fenced) {
  if (can_.mappable) store_.fence(id, is_fenced);
}

Status IoService::restore_fences() {
  WEIR_TRY(const std::vector<storage::KeptFence> kept, storage::Blocking(store_, options_.runtime).kept_fences());
  for (const storage::KeptFence& fence : kept) {
    if (fence.token == kRemovedToken) {
      kept_removed_.push_back(fence.id);
      note_removed(fence.id);
      continue;
    }
    fences_[fence.id] = {fence.token, 0, true, options_.runtime.clock->now()};
    tell_fence(fence.id, true);
    WEIR_LOG_INFO("{} is fenced: its relayout was interrupted just before its end, or goes on elsewhere",
                  name_of(fence.id));
  }
  return Status::ok();
}

Task<Status> IoService::confirm_fence(SubfileId id, std::uint64_t token, net::PeerId peer) {
  Fence* fence = fence_of(id);
  if (fence == nullptr || fence->token != token) {
    co_return Status(ErrorCode::kStale, concat(name_of(id), ": may have been written while it was given a new layout"));
  }
  *fence = {token, peer, true, {}};
  Status status = co_await keep_fences();
  if (const auto found = fences_.find(id); !status.is_ok() && found != fences_.end())
    found->second.is_confirmed = false;
  co_return status;
}

bool IoService::lower_fence(SubfileId id) {
  const auto found = fences_.find(id);
  if (found == fences_.end()) return false;
  const bool was_confirmed = found->second.is_confirmed;
  fences_.erase(found);
  tell_fence(id, false);
  return was_confirmed;
}

Task<Status> IoService::change_fence(SubfileId id, net::PeerId peer, wire::FenceAction action, std::uint64_t token) {
  if (action == wire::FenceAction::Raise) co_return co_await raise_fence(id, token, peer);
  if (action == wire::FenceAction::Confirm) co_return co_await confirm_fence(id, token, peer);
  Fence* fence = fence_of(id);
  if (fence == nullptr || (token != 0 && token != fence->token)) co_return Status::ok();
  // As if the caller had been gone for long: it will not come back.
  if (action == wire::FenceAction::Leave) fence->lost = options_.runtime.clock->now() - options_.fence_grace;
  if (action == wire::FenceAction::Lower && lower_fence(id)) {
    // One that comes back with the next start can be lowered again.
    const Status status = co_await keep_fences();
    if (!status.is_ok()) WEIR_LOG_WARN("fences: {}", status.message());
  }
  co_return Status::ok();
}

void IoService::fence(const CallPtr& call, const wire::FenceT& request) {
  WEIR_CALL_TRY(call, const SubfileId subfile, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check_repair(*call, subfile.file, kMayWrite));
  answer_in_turn(call, request.subfile.get(), Use::kRead,
                 [this, peer = call->request.peer(), action = request.action, token = request.token](SubfileId id) {
                   return change_fence(id, peer, action, token);
                 });
}

void IoService::meter(const CallPtr& call, const wire::MeterSpaceT& request) {
  if (!call->request.identity().is_server) {
    return call->fail({ErrorCode::kPermission,
                       concat("user ", call->request.identity().uid, " may not say what is counted: server 0 does")});
  }
  if (space_ == nullptr) return call->fail({ErrorCode::kUnavailable, "this server is starting"});
  space_->meter(call, request);
}

// ---------------------------------------------------------------- sharing memory

Result<wire::HandoverT> IoService::hand_over(const ServerCall& call, SubfileId id, const wire::ShareT& request) {
  const net::Identity& who = call.request.identity();
  wire::HandoverT answer;
  if (!can_.shareable || options_.handover == nullptr || who.host != options_.host) return answer;
  if (can_.verifies && !request.declares) return answer;
  // Who may not read goes by message: memory that can be written can be read.
  if (!access_.check(call, id.file, kMayRead).is_ok()) return answer;
  const bool is_writable = request.for_writing && access_.check(call, id.file, kMayWrite).is_ok();
  // A hint: what makes no sense is none.
  const Offset expected = std::clamp<Offset>(request.expected_bytes, 0, kMostExpectedBytes);
  const share::Peers peers = who.uid == geteuid() || who.uid == 0 ? share::Peers::kOwn : share::Peers::kOthers;
  WEIR_TRY(const std::optional<share::SharedMemory> memory, store_.share(id, is_writable, expected, peers));
  if (!memory) return answer;
  answer.possible = true;
  answer.boot = options_.boot;
  answer.verifies = can_.verifies;
  // Only those are told of descriptors who can do anything to this process.  What is for reading only has one that does
  // not stay.
  if (request.opens && is_writable && peers == share::Peers::kOwn) {
    answer.process = getpid();
    WEIR_TRY(answer.memory, shown(memory->descriptor));
    WEIR_TRY(answer.lifeline, shown(options_.handover->lifeline()));
    return answer;
  }
  WEIR_TRY(answer.token, options_.handover->offer(memory->descriptor, is_writable, who.uid));
  answer.socket = options_.handover->socket();
  return answer;
}

void IoService::share(const CallPtr& call, const wire::ShareT& request) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, access_.check(*call, id.file, 0));
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  in_turn(call, id, Use::kRead, Turns::Kind::kAlone, [this, call, id] {
    auto result = hand_over(*call, id, *call->head.operation.AsShare());
    turns_.leave(id);
    call->answer(std::move(result));
  });
}

}  // namespace weir::server::internal
