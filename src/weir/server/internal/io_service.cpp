#include <weir/server/internal/io_service.h>

#include <algorithm>
#include <functional>
#include <utility>

#include <unistd.h>

#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/server/internal/about.h>
#include <weir/server/internal/assembly.h>
#include <weir/storage/shared_memory.h>
#include <weir/wire/handover.h>

namespace weir::server::internal {

namespace {

// A shorter body is rather copied than that others have to wait while it is sent.
constexpr Offset kDirectReadFrom = 65536;
constexpr std::size_t kKeptBufferBytes = std::size_t{64} << 20;
// The event loop itself reads and writes so many bytes if nobody else is at work on the store: sooner done than asking
// another thread.
constexpr std::size_t kShortBytes = 65536;
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

Status check_body(const Call& call, Offset bytes) {
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
  WEIR_TRY(const wire::Shown file, wire::Shown::of(descriptor));
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

IoService::IoService(storage::Store& store, Options options)
    : store_(store),
      options_(std::move(options)),
      io_(store),
      buffers_(std::make_shared<Buffers>(std::max(options_.buffer_bytes, kMostBodyBytes), kKeptBufferBytes)),
      thread_(store.waits() ? std::make_unique<StoreThread>() : nullptr) {}

bool IoService::handle(const CallPtr& call) {
  const wire::OperationUnion& operation = call->head.operation;
  switch (operation.type) {
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
    case wire::Operation::Share: share(call, *operation.AsShare()); return true;
    case wire::Operation::Fence: fence(call, *operation.AsFence()); return true;
    default: return false;
  }
}

void IoService::drop(net::PeerId peer) {
  views_.drop(peer);
  for (auto& [id, fence] : fences_) {
    if (fence.peer == peer && !fence.lost) fence.lost = net::Clock::now();
  }
}

// Where the store is worked on.
IoService::SyncedSubfiles IoService::sync_each(const std::set<SubfileId>& ids) {
  SyncedSubfiles result;
  for (const SubfileId id : ids) {
    const Status status = store_.sync(id);
    if (status.is_ok()) continue;
    WEIR_LOG_ERROR("sync of {}: {}", name_of(id), status.message());
    if (result.first_error.is_ok()) result.first_error = status;
    result.failed.insert(id);
  }
  return result;
}

Status IoService::sync_all() {
  // In one go, and after what nobody waits for any more: that must not come to the event loop when it is gone.
  const SyncedSubfiles result = wait_at_store([this] { return sync_each(dirty_); });
  dirty_.clear();
  return result.first_error;
}

// ---------------------------------------------------------------- the store

template <typename Work, typename Then>
void IoService::at_store(const CallPtr& call, Length length, Work work, Then then) {
  if (!store_.waits() || (length == Length::kShort && thread_->is_idle())) return then(work());
  auto if_wanted = [is_wanted = call->request.is_wanted(), work = std::move(work)]() -> decltype(work()) {
    if (*is_wanted) return work();
    return Status{ErrorCode::kUnavailable, "the caller gave up while others were at work on the store"};
  };
  thread_->post([this, if_wanted = std::move(if_wanted), then = std::move(then)]() mutable {
    // Moved: what it holds must end in the event loop.
    options_.post([result = if_wanted(), then = std::move(then)]() mutable { then(std::move(result)); });
  });
}

template <typename Work>
auto IoService::wait_at_store(Work work) -> decltype(work()) {
  return store_.waits() ? thread_->run(std::move(work)) : work();
}

IoService::Length IoService::length_of(std::size_t bytes) {
  return bytes <= kShortBytes ? Length::kShort : Length::kLong;
}

// ---------------------------------------------------------------- turns

void IoService::in_turn(const CallPtr& call, SubfileId id, Use use, Turns::Kind kind, std::function<void()> work) {
  turns_.take(id, kind, [this, call, id, use, work = std::move(work)] {
    if (removed_.contains(id)) {
      call->fail({ErrorCode::kStale, concat(name_of(id), " was removed: open the file again")});
    } else if (!call->is_wanted()) {
      call->fail(
          {ErrorCode::kUnavailable, concat(name_of(id), ": the caller gave up while others were at work on it")});
    } else if (use == Use::kWrite && fence_of(id) != nullptr) {
      call->fail({ErrorCode::kStale, concat(name_of(id), " is being given a new layout: write when that is done")});
    } else {
      if (use == Use::kWrite) dirty_.insert(id);
      return work();
    }
    turns_.leave(id);
  });
}

template <typename Work, typename Then>
void IoService::answer_in_turn(const CallPtr& call, const wire::Subfile* subfile, Use use, Length length, Work work,
                               Then then) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(subfile));
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  in_turn(call, id, use, Turns::Kind::kAlone, [this, call, id, length, work = std::move(work), then = std::move(then)] {
    at_store(
        call, length, [id, work] { return work(id); },
        [this, call, id, then](auto result) {
          auto answer = then(std::move(result));
          turns_.leave(id);
          call->answer(std::move(answer));
        });
  });
}

// ---------------------------------------------------------------- reading

void IoService::read_contiguous(const CallPtr& call, SubfileId id, Range range) {
  const Offset bytes = range.to - range.from;
  const auto read = [this, id, range](std::span<std::byte> into) {
    const storage::ReadPiece piece{range.from, into};
    return store_.read(id, {&piece, 1});
  };
  if (bytes < kDirectReadFrom || store_.waits()) return read_buffered(call, id, bytes, read);
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
  buffers_->ask(static_cast<std::size_t>(bytes), [this, call, id, read](std::shared_ptr<Buffer> buffer) {
    in_turn(call, id, Use::kRead, buffered_turn(), [this, call, id, read, buffer] {
      const std::span<std::byte> into = buffer->bytes();
      at_store(
          call, length_of(into.size()), [read, into] { return read(into); },
          [this, call, id, buffer](const Status& status) {
            turns_.leave(id);
            if (!status.is_ok()) return call->fail(status);
            call->answer_body(buffer->bytes(), [buffer] {});
          });
    });
  });
}

void IoService::read_view(const CallPtr& call, const wire::ReadViewT& request) {
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  WEIR_CALL_TRY(call, const auto view, views_.find(call->request.peer(), request.view));
  WEIR_CALL_TRY(call, const Range range, to_range(request.range.get(), kMostViewRange));
  const Offset bytes = view->packing.bytes(range);
  if (const std::optional<Offset> at = view->packing.direct_b(range)) {
    return read_contiguous(call, view->subfile, {*at, *at + bytes});
  }
  read_buffered(call, view->subfile, bytes, [this, view, range](std::span<std::byte> into) {
    return io_.read(view->subfile, view->packing, range, into);
  });
}

void IoService::read_pieces(const CallPtr& call, const wire::ReadPiecesT& request) {
  Offset bytes = 0;
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_TRY(call, const std::vector<MessagePiece> pieces, to_pieces(request.pieces, bytes));
  if (pieces.size() == 1) return read_contiguous(call, id, {pieces[0].offset, pieces[0].offset + bytes});
  read_buffered(call, id, bytes, [this, id, pieces](std::span<std::byte> into) { return io_.read(id, pieces, into); });
}

// ---------------------------------------------------------------- writing

// Of a write without bytes, the end of the file is what remains.
void IoService::write_end(const CallPtr& call, SubfileId id, Offset file_end) {
  in_turn(call, id, Use::kWrite, buffered_turn(), [this, call, id, file_end] {
    at_store(
        call, Length::kShort, [this, id, file_end] { return store_.write(id, {}, file_end); },
        [this, call, id](const Status& status) {
          turns_.leave(id);
          call->answer(status);
        });
  });
}

void IoService::write_contiguous(const CallPtr& call, SubfileId id, Offset from, Offset file_end) {
  const Offset to = from + static_cast<Offset>(call->request.body_bytes());
  const auto write = [this, id, from, file_end](std::span<const std::byte> body) {
    const storage::WritePiece piece{from, body};
    return store_.write(id, {&piece, 1}, file_end);
  };
  if (store_.waits()) return write_buffered(call, id, write);
  in_turn(call, id, Use::kWrite, Turns::Kind::kAlone, [this, call, id, from, to, file_end, write] {
    const auto memory = store_.map(id, from, to, true);
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
    write_buffered(call, id, write);
  });
}

void IoService::write_buffered(const CallPtr& call, SubfileId id, WriteFrom write) {
  const std::size_t bytes = call->request.body_bytes();
  WEIR_CALL_CHECK(call, check_buffered(bytes));
  buffers_->ask(bytes, [this, call, id, write](std::shared_ptr<Buffer> buffer) {
    call->request.receive(buffer->bytes(), [this, call, id, write, buffer](const Status& received) {
      if (!received.is_ok()) return call->fail(received);
      in_turn(call, id, Use::kWrite, buffered_turn(), [this, call, id, write, buffer] {
        const std::span<const std::byte> body = buffer->bytes();
        at_store(
            call, length_of(body.size()), [write, body] { return write(body); },
            [this, call, id, buffer](const Status& status) {
              turns_.leave(id);
              call->answer(status);
            });
      });
    });
  });
}

void IoService::write_view(const CallPtr& call, const wire::WriteViewT& request) {
  WEIR_CALL_TRY(call, const auto view, views_.find(call->request.peer(), request.view));
  WEIR_CALL_TRY(call, const Range range, to_range(request.range.get(), kMostViewRange));
  WEIR_CALL_CHECK(call, check_end("end of file", request.file_end));
  WEIR_CALL_CHECK(call, check_body(*call, view->packing.bytes(range)));
  if (call->request.body_bytes() == 0) return write_end(call, view->subfile, request.file_end);
  call->counters.bytes_in += call->request.body_bytes();
  if (const std::optional<Offset> at = view->packing.direct_b(range)) {
    return write_contiguous(call, view->subfile, *at, request.file_end);
  }
  write_buffered(call, view->subfile, [this, view, range, end = request.file_end](std::span<const std::byte> body) {
    return io_.write(view->subfile, view->packing, range, body, end);
  });
}

void IoService::write_pieces(const CallPtr& call, const wire::WritePiecesT& request) {
  Offset bytes = 0;
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_TRY(call, const std::vector<MessagePiece> pieces, to_pieces(request.pieces, bytes));
  WEIR_CALL_CHECK(call, check_end("end of file", request.file_end));
  WEIR_CALL_CHECK(call, check_body(*call, bytes));
  if (bytes == 0) return write_end(call, id, request.file_end);
  call->counters.bytes_in += call->request.body_bytes();
  if (pieces.size() == 1) return write_contiguous(call, id, pieces[0].offset, request.file_end);
  write_buffered(call, id, [this, id, pieces, end = request.file_end](std::span<const std::byte> body) {
    return io_.write(id, pieces, body, end);
  });
}

// ---------------------------------------------------------------- the rest

void IoService::register_view(const CallPtr& call, const wire::RegisterViewT& request) {
  WEIR_CALL_TRY(call, [[maybe_unused]] const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  call->answer(views_.add(call->request.peer(), request));
}

void IoService::truncate(const CallPtr& call, const wire::TruncateT& request) {
  WEIR_CALL_CHECK(call, check_end("length", request.length));
  WEIR_CALL_CHECK(call, check_end("end of file", request.file_end));
  answer_in_turn(
      call, request.subfile.get(), Use::kWrite, Length::kShort,
      [this, length = request.length, end = request.file_end](SubfileId id) {
        return store_.truncate(id, length, end);
      },
      std::identity());
}

void IoService::reserve(const CallPtr& call, const wire::ReserveT& request) {
  WEIR_CALL_TRY(call, const Range range, to_range(request.range.get(), kMaxBytes));
  answer_in_turn(
      call, request.subfile.get(), Use::kWrite, Length::kShort,
      [this, range, mapped = request.mapped](SubfileId id) {
        if (mapped) {
          const auto memory = store_.map(id, range.from, range.to, true);
          if (memory.is_ok() && *memory) return Status::ok();
        }
        return store_.reserve(id, range.from, range.to);
      },
      std::identity());
}

void IoService::sync(const CallPtr& call, const wire::SyncT& request) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, check_about(id, request.about));
  answer_in_turn(
      call, request.subfile.get(), Use::kRead, Length::kLong,
      [this, about = request.about](SubfileId subfile) -> Status {
        if (!about.empty()) WEIR_RETURN_IF_ERROR(keep_newer_about(store_, subfile, about));
        return store_.sync(subfile);
      },
      [this, id](Status status) {
        if (status.is_ok()) dirty_.erase(id);
        return status;
      });
}

void IoService::sync_subfiles(const CallPtr& call) {
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  // Taken now: those that are written meanwhile are due again.
  std::set<SubfileId> ids = std::exchange(dirty_, {});
  at_store(
      call, Length::kLong, [this, ids]() -> Result<SyncedSubfiles> { return sync_each(ids); },
      [this, call, ids](Result<SyncedSubfiles> synced) {
        // Not even tried, if the deadline was over.
        const std::set<SubfileId>& failed = synced.is_ok() ? synced->failed : ids;
        for (const SubfileId id : failed) {
          if (!removed_.contains(id)) dirty_.insert(id);
        }
        call->answer(synced.is_ok() ? synced->first_error : synced.status());
      });
}

void IoService::remove(const CallPtr& call, const wire::RemoveSubfileT& request) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  if (removed_.contains(id)) return call->answer(wire::DoneT{});
  answer_in_turn(
      call, request.subfile.get(), Use::kRead, Length::kLong,
      [this](SubfileId subfile) { return store_.remove(subfile); },
      [this, id](Status status) {
        if (status.is_ok()) note_removed(id);
        return status;
      });
}

void IoService::note_removed(SubfileId id) {
  dirty_.erase(id);
  lower_fence(id);
  removed_.insert(id);
  removed_in_order_.push_back(id);
  if (removed_in_order_.size() <= kMostRemoved) return;
  removed_.erase(removed_in_order_.front());
  removed_in_order_.pop_front();
}

void IoService::inspect(const CallPtr& call, const wire::InspectT& request) {
  WEIR_CALL_TRY(call, const SubfileId subfile, to_id(request.subfile.get()));
  answer_in_turn(
      call, request.subfile.get(), Use::kRead, Length::kShort,
      [this, with_about = request.about](SubfileId id) -> Result<wire::SubfileInfoT> {
        WEIR_TRY(const storage::SubfileInfo info, store_.info(id));
        wire::SubfileInfoT answer;
        answer.length = info.length;
        answer.file_end = info.file_end;
        answer.stored_bytes = info.stored_bytes;
        if (with_about) WEIR_RETURN_IF_ERROR(add_about(store_, id, answer));
        return answer;
      },
      [this, subfile](Result<wire::SubfileInfoT> answer) {
        if (const Fence* fence = answer.is_ok() ? fence_of(subfile) : nullptr) {
          answer->fence = fence->token;
          answer->fence_abandoned = is_abandoned(*fence);
        }
        return answer;
      });
}

void IoService::describe(const CallPtr& call, const wire::DescribeT& request) {
  WEIR_CALL_TRY(call, const SubfileId subfile, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, check_about(subfile, request.about));
  answer_in_turn(
      call, request.subfile.get(), Use::kRead, Length::kShort,
      [this, about = request.about](SubfileId id) { return keep_newer_about(store_, id, about); }, std::identity());
}

Status IoService::form(std::uint32_t servers) {
  return wait_at_store([this, servers] { return form_label(store_, servers); });
}

void IoService::list(const CallPtr& call, const wire::ListSubfilesT& request) {
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
  at_store(
      call, Length::kLong, [this] { return store_.list(); }, answer_part);
}

void IoService::usage(const CallPtr& call, const wire::UsageOfT& request) {
  const auto look = [this, counts_stored = request.counts_stored]() -> Result<wire::UsageT> {
    WEIR_TRY(const storage::Usage usage, store_.usage());
    wire::UsageT answer;
    answer.capacity_bytes = usage.capacity_bytes;
    answer.used_bytes = usage.used_bytes;
    answer.subfiles = usage.subfiles;
    answer.disk = usage.disk;
    if (counts_stored) {
      WEIR_TRY(answer.stored_bytes, store_.stored_bytes());
    }
    return answer;
  };
  at_store(call, Length::kLong, look, [call](const Result<wire::UsageT>& answer) {
    if (!answer.is_ok()) return call->fail(answer.status());
    call->answer(wire::UsageT(*answer));
  });
}

// ---------------------------------------------------------------- fences

IoService::Fence* IoService::fence_of(SubfileId id) {
  const auto found = fences_.find(id);
  if (found == fences_.end()) return nullptr;
  Fence& fence = found->second;
  if (fence.is_confirmed || !is_abandoned(fence)) return &fence;
  lower_fence(id);
  return nullptr;
}

bool IoService::is_abandoned(const Fence& fence) const {
  return fence.lost && net::Clock::now() - *fence.lost >= options_.fence_grace;
}

Status IoService::raise_fence(SubfileId id, std::uint64_t token, net::PeerId peer) {
  const Fence* other = fence_of(id);
  if (other != nullptr && other->token != token && !other->lost) {
    return {ErrorCode::kUnavailable, concat(name_of(id), ": another relayout of the file is under way")};
  }
  const bool was_confirmed = other != nullptr && other->is_confirmed;
  fences_[id] = {token, peer, false, {}};
  tell_fence(id, true);
  return was_confirmed ? keep_fences() : Status::ok();
}

Status IoService::keep_fences() {
  std::vector<storage::KeptFence> kept;
  for (const auto& [id, fence] : fences_) {
    if (fence.is_confirmed) kept.push_back({id, fence.token});
  }
  return wait_at_store([this, &kept] { return store_.keep_fences(kept); });
}

// Stores that wait have no memory that anybody could have mapped.
void IoService::tell_fence(SubfileId id, bool is_fenced) {
  if (!store_.waits()) store_.fence(id, is_fenced);
}

Status IoService::restore_fences() {
  WEIR_TRY(const std::vector<storage::KeptFence> kept, wait_at_store([this] { return store_.kept_fences(); }));
  for (const storage::KeptFence& fence : kept) {
    fences_[fence.id] = {fence.token, 0, true, net::Clock::now()};
    tell_fence(fence.id, true);
    WEIR_LOG_INFO("{} is fenced: its relayout was interrupted just before its end, or goes on elsewhere",
                  name_of(fence.id));
  }
  return Status::ok();
}

Status IoService::confirm_fence(SubfileId id, std::uint64_t token, net::PeerId peer) {
  Fence* fence = fence_of(id);
  if (fence == nullptr || fence->token != token) {
    return {ErrorCode::kStale, concat(name_of(id), ": may have been written while it was given a new layout")};
  }
  *fence = {token, peer, true, {}};
  Status status = keep_fences();
  if (!status.is_ok()) fence->is_confirmed = false;
  return status;
}

void IoService::lower_fence(SubfileId id) {
  const auto found = fences_.find(id);
  if (found == fences_.end()) return;
  const bool was_confirmed = found->second.is_confirmed;
  fences_.erase(found);
  tell_fence(id, false);
  if (!was_confirmed) return;
  // One that comes back with the next start can be lowered again.
  if (const Status status = keep_fences(); !status.is_ok()) WEIR_LOG_WARN("fences: {}", status.message());
}

void IoService::fence(const CallPtr& call, const wire::FenceT& request) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  const auto work = [this, id, peer = call->request.peer(), action = request.action, token = request.token] {
    if (action == wire::FenceAction::Raise) return raise_fence(id, token, peer);
    if (action == wire::FenceAction::Confirm) return confirm_fence(id, token, peer);
    Fence* fence = fence_of(id);
    if (fence == nullptr || (token != 0 && token != fence->token)) return Status::ok();
    if (action == wire::FenceAction::Lower) lower_fence(id);
    // As if the caller had been gone for long: it will not come back.
    if (action == wire::FenceAction::Leave) fence->lost = net::Clock::now() - options_.fence_grace;
    return Status::ok();
  };
  in_turn(call, id, Use::kRead, Turns::Kind::kAlone, [this, call, id, work] {
    const Status status = work();
    turns_.leave(id);
    call->answer(status);
  });
}

// ---------------------------------------------------------------- sharing memory

Result<wire::HandoverT> IoService::hand_over(const net::Identity& who, SubfileId id, const wire::ShareT& request) {
  wire::HandoverT answer;
  if (store_.waits() || options_.handover == nullptr || who.host != options_.host) return answer;
  // A hint: what makes no sense is none.
  const Offset expected = std::clamp<Offset>(request.expected_bytes, 0, kMostExpectedBytes);
  const storage::Peers peers = who.uid == geteuid() || who.uid == 0 ? storage::Peers::kOwn : storage::Peers::kOthers;
  WEIR_TRY(const std::optional<storage::SharedMemory> memory, store_.share(id, request.for_writing, expected, peers));
  if (!memory) return answer;
  answer.possible = true;
  answer.boot = options_.boot;
  // What is for reading only has a descriptor that does not stay.
  if (request.opens && request.for_writing) {
    answer.process = getpid();
    WEIR_TRY(answer.memory, shown(memory->descriptor));
    WEIR_TRY(answer.lifeline, shown(options_.handover->lifeline()));
    return answer;
  }
  WEIR_TRY(answer.token, options_.handover->offer(memory->descriptor, request.for_writing, who.uid));
  answer.socket = options_.handover->socket();
  return answer;
}

void IoService::share(const CallPtr& call, const wire::ShareT& request) {
  WEIR_CALL_TRY(call, const SubfileId id, to_id(request.subfile.get()));
  WEIR_CALL_CHECK(call, check_body(*call, 0));
  in_turn(call, id, Use::kRead, Turns::Kind::kAlone, [this, call, id] {
    auto result = hand_over(call->request.identity(), id, *call->head.operation.AsShare());
    turns_.leave(id);
    call->answer(std::move(result));
  });
}

}  // namespace weir::server::internal
