#include <weir/server/internal/subfile_io.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include <weir/base/text.h>

namespace weir::server::internal {

namespace {

using storage::SubfileId;
using transfer::Range;
using transfer::Route;

// Given to the store at once.
constexpr std::size_t kMostPieces = 1024;
// In the store's own memory, a window may be so many times as long as the bytes meant.
constexpr Offset kMostSpread = 16;

std::size_t to_size(Offset bytes) { return static_cast<std::size_t>(bytes); }

Offset end_of(const MessagePiece& piece) { return piece.offset + piece.length; }

void sort_by_offset(std::span<MessagePiece> pieces) {
  const auto before = [](const MessagePiece& x, const MessagePiece& y) { return x.offset < y.offset; };
  if (!std::is_sorted(pieces.begin(), pieces.end(), before)) std::sort(pieces.begin(), pieces.end(), before);
}

Status check_disjoint(SubfileId id, std::span<const MessagePiece> sorted) {
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].offset < end_of(sorted[i - 1])) {
      return invalid_argument(
          concat("write subfile ", id.element, " of file ", id.file, ": byte ", sorted[i].offset, " is in two pieces"));
    }
  }
  return Status::ok();
}

// How many of the sorted pieces, from the first on, share a window; 1: the first goes as it is.
std::size_t count_in_window(std::span<const MessagePiece> sorted) {
  std::size_t count = 0;
  Offset end = sorted.front().offset;
  for (const MessagePiece& piece : sorted) {
    if (piece.length >= kSmallPiece || piece.offset - end > kMostGap) break;
    if (std::max(end, end_of(piece)) - sorted.front().offset > kMostWindow) break;
    end = std::max(end, end_of(piece));
    ++count;
  }
  return std::max<std::size_t>(count, 1);
}

// Whether a range is better worked on piece by piece than in windows.  Judged by the first piece: a wrong guess costs
// time, nothing else.
bool prefers_pieces(const Route& route, Range range, Offset bytes, Range extent) {
  const auto first = Route::MessageCursor(route, range, range).next();
  if (!first || first->length >= kSmallPiece) return true;
  const Offset pieces = std::max<Offset>(bytes / first->length, 1);
  return (extent.to - extent.from - bytes) / pieces > kMostGap;
}

}  // namespace

// ---------------------------------------------------------------- what reading and writing have in common

/// One access to a subfile: cuts it into lists of pieces and windows, which the derived classes move.
class SubfileIo::Transfer {
 public:
  Transfer(SubfileIo& io, SubfileId id, storage::IsWanted is_wanted)
      : io_(io), id_(id), is_wanted_(std::move(is_wanted)) {}
  virtual ~Transfer() = default;

  Task<Status> run(std::vector<MessagePiece> pieces);
  Task<Status> run(const Route& route, Range range);

 protected:
  /// Moves the pieces as they are.
  virtual Task<Status> move_list(std::span<const MessagePiece> pieces) = 0;
  /// Calls `move(memory of the window)` between reading it and writing it back, as far as that is needed; `is_covered`:
  /// every byte of it will be written.  \returns false if it is too long for a store without memory
  using Move = std::function<void(std::byte* window)>;
  virtual Task<Result<bool>> with_window(Range window, bool is_covered, const Move& move) = 0;
  /// Between the window, whose first byte is `window`, and the message.
  virtual void move_piece(const MessagePiece& piece, std::byte* window, Offset origin) = 0;
  virtual void move_view(const Route& route, Range range, std::byte* window, Offset origin) = 0;
  virtual Status check(std::span<const MessagePiece> sorted) = 0;

  /// What the store has at `from`, as long as the window is.
  Task<Status> read_window(Offset from) {
    storage::op::Read all{id_, {}};
    all.pieces.push_back({from, window_});
    return storage::run(io_.store_, std::move(all), is_wanted_);
  }

  SubfileIo& io_;
  SubfileId id_;
  storage::IsWanted is_wanted_;
  std::vector<std::byte> window_;  // what a store without memory has there

  Range range_;  // of the whole message, if it is of a view

 private:
  Task<Status> run_sorted(std::span<const MessagePiece> pieces);
  Task<Status> run_part(const Route& route, Range part);
  Task<Status> run_pieces_of(const Route& route, Range part);
  Task<Result<bool>> run_window_of(const Route& route, Range part, Offset bytes, Range extent);
};

Task<Status> SubfileIo::Transfer::run(std::vector<MessagePiece> pieces) {
  std::erase_if(pieces, [](const MessagePiece& piece) { return piece.length == 0; });
  sort_by_offset(pieces);
  WEIR_CO_RETURN_IF_ERROR(check(pieces));
  co_return co_await run_sorted(pieces);
}

Task<Status> SubfileIo::Transfer::run_sorted(std::span<const MessagePiece> pieces) {
  std::vector<MessagePiece> list;
  while (!pieces.empty()) {
    const std::size_t count = count_in_window(pieces);
    const std::span<const MessagePiece> together = pieces.first(count);
    pieces = pieces.subspan(count);
    if (count == 1) {
      list.push_back(together.front());
    } else {
      Offset end = 0;
      Offset bytes = 0;
      for (const MessagePiece& piece : together) end = std::max(end, end_of(piece)), bytes += piece.length;
      const Range window{together.front().offset, end};
      const Move move = [&](std::byte* memory) {
        for (const MessagePiece& piece : together) move_piece(piece, memory, window.from);
      };
      WEIR_CO_TRY([[maybe_unused]] const bool moved,
                  co_await with_window(window, bytes == window.to - window.from, move));
    }
    if (list.size() == kMostPieces || (pieces.empty() && !list.empty())) {
      WEIR_CO_RETURN_IF_ERROR(co_await move_list(list));
      list.clear();
    }
  }
  co_return Status::ok();
}

Task<Status> SubfileIo::Transfer::run(const Route& route, Range range) {
  range_ = range;
  if (const std::optional<Offset> at = route.direct_b(range)) {
    const MessagePiece all{*at, route.bytes(range), 0};
    const std::span<const MessagePiece> list(&all, 1);
    co_return co_await move_list(list);
  }
  co_return co_await run_part(route, range);
}

// Halves the part until what it touches fits into a window.
Task<Status> SubfileIo::Transfer::run_part(const Route& route, Range part) {
  const Offset bytes = route.bytes(part);
  if (bytes == 0) co_return Status::ok();
  const Range extent = route.extent_b(part);
  if (extent.to > kMaxBytes) co_return out_of_range(concat("view: reaches to byte ", extent.to, " of the subfile"));
  if (prefers_pieces(route, part, bytes, extent)) co_return co_await run_pieces_of(route, part);
  WEIR_CO_TRY(const bool moved, co_await run_window_of(route, part, bytes, extent));
  if (moved) co_return Status::ok();
  if (part.to - part.from == 1) co_return co_await run_pieces_of(route, part);
  const Offset middle = part.from + (part.to - part.from) / 2;
  WEIR_CO_RETURN_IF_ERROR(co_await run_part(route, Range{part.from, middle}));
  co_return co_await run_part(route, Range{middle, part.to});
}

Task<Status> SubfileIo::Transfer::run_pieces_of(const Route& route, Range part) {
  std::vector<MessagePiece> pieces;
  const auto flush = [&]() -> Task<Status> {
    sort_by_offset(pieces);
    WEIR_CO_RETURN_IF_ERROR(check(pieces));
    WEIR_CO_RETURN_IF_ERROR(co_await run_sorted(pieces));
    pieces.clear();
    co_return Status::ok();
  };
  for (Route::MessageCursor cursor(route, part, range_); const auto piece = cursor.next();) {
    pieces.push_back({piece->b, piece->length, piece->message});
    if (pieces.size() == kMostPieces) WEIR_CO_RETURN_IF_ERROR(co_await flush());
  }
  co_return co_await flush();
}

Task<Result<bool>> SubfileIo::Transfer::run_window_of(const Route& route, Range part, Offset bytes, Range extent) {
  const Offset length = extent.to - extent.from;
  if (length > kMostWindow && length / kMostSpread > bytes) co_return false;
  // Bytes of one band are distinct, those of several need not be if the peer is up to something: then all are read
  // first.
  const bool is_covered = route.bands().size() == 1 && bytes == length;
  const Move move = [&](std::byte* memory) { move_view(route, part, memory, extent.from); };
  co_return co_await with_window(extent, is_covered, move);
}

// ---------------------------------------------------------------- reading

class SubfileIo::Read : public Transfer {
 public:
  Read(SubfileIo& io, SubfileId id, std::span<std::byte> message, storage::IsWanted is_wanted)
      : Transfer(io, id, std::move(is_wanted)), message_(message) {}

 private:
  Status check(std::span<const MessagePiece>) override { return Status::ok(); }

  Task<Status> move_list(std::span<const MessagePiece> pieces) override {
    storage::op::Read list{id_, {}};
    for (const MessagePiece& piece : pieces) {
      list.pieces.push_back({piece.offset, message_.subspan(to_size(piece.at), to_size(piece.length))});
    }
    return storage::run(io_.store_, std::move(list), is_wanted_);
  }

  Task<Result<bool>> with_window(Range window, bool, const Move& move) override {
    WEIR_CO_TRY(const auto memory, io_.store_.map(id_, window.from, window.to, false));
    if (memory) {
      move(memory->data());
      co_return true;
    }
    if (window.to - window.from > kMostWindow) co_return false;
    window_.resize(to_size(window.to - window.from));
    WEIR_CO_RETURN_IF_ERROR(co_await read_window(window.from));
    move(window_.data());
    co_return true;
  }

  void move_piece(const MessagePiece& piece, std::byte* window, Offset origin) override {
    std::memcpy(message_.data() + piece.at, window + (piece.offset - origin), to_size(piece.length));
  }

  void move_view(const Route& route, Range range, std::byte* window, Offset origin) override {
    route.pack_b({window, origin}, range, message_.data(), range_);
  }

  std::span<std::byte> message_;
};

// ---------------------------------------------------------------- writing

class SubfileIo::Write : public Transfer {
 public:
  Write(SubfileIo& io, SubfileId id, std::span<const std::byte> message, Offset file_end, storage::IsWanted is_wanted)
      : Transfer(io, id, std::move(is_wanted)), message_(message), file_end_(file_end) {}

 private:
  Status check(std::span<const MessagePiece> sorted) override { return check_disjoint(id_, sorted); }

  Task<Status> move_list(std::span<const MessagePiece> pieces) override {
    storage::op::Write list{id_, {}, file_end_};
    for (const MessagePiece& piece : pieces) {
      list.pieces.push_back({piece.offset, message_.subspan(to_size(piece.at), to_size(piece.length))});
    }
    return storage::run(io_.store_, std::move(list), is_wanted_);
  }

  Task<Result<bool>> with_window(Range window, bool is_covered, const Move& move) override {
    WEIR_CO_TRY(const auto memory, io_.store_.map(id_, window.from, window.to, true));
    if (memory) {
      WEIR_CO_RETURN_IF_ERROR(io_.store_.begin_write(id_, window.from, window.to, is_covered));
      move(memory->data());
      io_.store_.note_written(id_, window.to, file_end_);
      co_return true;
    }
    if (window.to - window.from > kMostWindow) co_return false;
    window_.resize(to_size(window.to - window.from));
    if (!is_covered) WEIR_CO_RETURN_IF_ERROR(co_await read_window(window.from));
    move(window_.data());
    storage::op::Write all{id_, {}, file_end_};
    all.pieces.push_back({window.from, window_});
    WEIR_CO_RETURN_IF_ERROR(co_await storage::run(io_.store_, std::move(all), is_wanted_));
    co_return true;
  }

  void move_piece(const MessagePiece& piece, std::byte* window, Offset origin) override {
    std::memcpy(window + (piece.offset - origin), message_.data() + piece.at, to_size(piece.length));
  }

  void move_view(const Route& route, Range range, std::byte* window, Offset origin) override {
    route.unpack_b(message_.data(), range, {window, origin}, range_);
  }

  std::span<const std::byte> message_;
  Offset file_end_;
};

// ---------------------------------------------------------------- interface

Task<Status> SubfileIo::read(SubfileId id, const Route& route, Range range, std::span<std::byte> message,
                             storage::IsWanted is_wanted) {
  Read access(*this, id, message, std::move(is_wanted));
  co_return co_await access.run(route, range);
}

Task<Status> SubfileIo::write(SubfileId id, const Route& route, Range range, std::span<const std::byte> message,
                              Offset file_end, storage::IsWanted is_wanted) {
  Write access(*this, id, message, file_end, std::move(is_wanted));
  co_return co_await access.run(route, range);
}

Task<Status> SubfileIo::read(SubfileId id, std::vector<MessagePiece> pieces, std::span<std::byte> message,
                             storage::IsWanted is_wanted) {
  Read access(*this, id, message, std::move(is_wanted));
  co_return co_await access.run(std::move(pieces));
}

Task<Status> SubfileIo::write(SubfileId id, std::vector<MessagePiece> pieces, std::span<const std::byte> message,
                              Offset file_end, storage::IsWanted is_wanted) {
  Write access(*this, id, message, file_end, std::move(is_wanted));
  co_return co_await access.run(std::move(pieces));
}

}  // namespace weir::server::internal
