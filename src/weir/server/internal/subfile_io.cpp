#include <weir/server/internal/subfile_io.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include <weir/base/text.h>

namespace weir::server::internal {

namespace {

using storage::SubfileId;
using transfer::Range;
using transfer::RangePacking;

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

// The items of a band that a range of the view holds.
Range items_of(const RangePacking::Band& band, Range range) {
  return {band.a.count_below(range.from), band.a.count_below(range.to)};
}

// Whether a range is better worked on piece by piece than in windows.  Judged by the first piece: a wrong guess costs
// time, nothing else.
bool prefers_pieces(const RangePacking& packing, Range range, Offset bytes, Range extent) {
  for (const RangePacking::Band& band : packing.bands()) {
    const Range items = items_of(band, range);
    if (items.from >= items.to) continue;
    const Offset length = band.b.segment_at(items.from, std::min(items.to - items.from, kSmallPiece)).length;
    if (length >= kSmallPiece) return true;
    const Offset pieces = std::max<Offset>(bytes / std::max<Offset>(length, 1), 1);
    return (extent.to - extent.from - bytes) / pieces > kMostGap;
  }
  return true;
}

}  // namespace

// ---------------------------------------------------------------- what reading and writing have in common

/// One access to a subfile: cuts it into lists of pieces and windows, which the derived classes move.
class SubfileIo::Transfer {
 public:
  Transfer(SubfileIo& io, SubfileId id) : io_(io), id_(id) {}
  virtual ~Transfer() = default;

  Status run(std::vector<MessagePiece> pieces);
  Status run(const RangePacking& packing, Range range);

 protected:
  /// Moves the pieces as they are.
  virtual Status move_list(std::span<const MessagePiece> pieces) = 0;
  /// Calls `move(memory of the window)` between reading it and writing it back, as far as that is needed; `is_covered`:
  /// every byte of it will be written.  \returns false if it is too long for a store without memory
  using Move = std::function<void(std::byte* window)>;
  virtual Result<bool> with_window(Range window, bool is_covered, const Move& move) = 0;
  /// Between the window, whose first byte is `window`, and the message.
  virtual void move_piece(const MessagePiece& piece, std::byte* window, Offset origin) = 0;
  virtual void move_view(const RangePacking& packing, Range range, std::byte* window, Offset origin) = 0;
  virtual Status check(std::span<const MessagePiece> sorted) = 0;

  SubfileIo& io_;
  SubfileId id_;

  /// Where the bytes of a part of the range are in the message, band by band.
  struct Part {
    Offset at;
    Offset length;
  };
  std::vector<Part> parts_of(const RangePacking& packing, Range part) const;

 private:
  Status run_sorted(std::span<const MessagePiece> pieces);
  Status run_part(const RangePacking& packing, Range part);
  Status run_pieces_of(const RangePacking& packing, Range part);
  Result<bool> run_window_of(const RangePacking& packing, Range part, Offset bytes, Range extent);

  Range range_;  // of the whole message, if it is of a view
};

Status SubfileIo::Transfer::run(std::vector<MessagePiece> pieces) {
  std::erase_if(pieces, [](const MessagePiece& piece) { return piece.length == 0; });
  sort_by_offset(pieces);
  WEIR_RETURN_IF_ERROR(check(pieces));
  return run_sorted(pieces);
}

Status SubfileIo::Transfer::run_sorted(std::span<const MessagePiece> pieces) {
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
      WEIR_TRY([[maybe_unused]] const bool moved,
               with_window(window, bytes == window.to - window.from, [&](std::byte* memory) {
                 for (const MessagePiece& piece : together) move_piece(piece, memory, window.from);
               }));
    }
    if (list.size() == kMostPieces || (pieces.empty() && !list.empty())) {
      WEIR_RETURN_IF_ERROR(move_list(list));
      list.clear();
    }
  }
  return Status::ok();
}

Status SubfileIo::Transfer::run(const RangePacking& packing, Range range) {
  range_ = range;
  if (const std::optional<Offset> at = packing.direct_b(range)) {
    const MessagePiece all{*at, packing.bytes(range), 0};
    return move_list({&all, 1});
  }
  return run_part(packing, range);
}

// Halves the part until what it touches fits into a window.
Status SubfileIo::Transfer::run_part(const RangePacking& packing, Range part) {
  const Offset bytes = packing.bytes(part);
  if (bytes == 0) return Status::ok();
  const Range extent = packing.extent_b(part);
  if (extent.to > kMaxBytes) return out_of_range(concat("view: reaches to byte ", extent.to, " of the subfile"));
  if (prefers_pieces(packing, part, bytes, extent)) return run_pieces_of(packing, part);
  WEIR_TRY(const bool moved, run_window_of(packing, part, bytes, extent));
  if (moved) return Status::ok();
  if (part.to - part.from == 1) return run_pieces_of(packing, part);
  const Offset middle = part.from + (part.to - part.from) / 2;
  WEIR_RETURN_IF_ERROR(run_part(packing, {part.from, middle}));
  return run_part(packing, {middle, part.to});
}

std::vector<SubfileIo::Transfer::Part> SubfileIo::Transfer::parts_of(const RangePacking& packing, Range part) const {
  std::vector<Part> parts;
  Offset start = 0;
  for (const RangePacking::Band& band : packing.bands()) {
    const Range all = items_of(band, range_);
    const Range items = items_of(band, part);
    parts.push_back({start + items.from - all.from, items.to - items.from});
    start += all.to - all.from;
  }
  return parts;
}

Status SubfileIo::Transfer::run_pieces_of(const RangePacking& packing, Range part) {
  const std::vector<Part> parts = parts_of(packing, part);
  std::vector<MessagePiece> pieces;
  const auto flush = [&]() -> Status {
    sort_by_offset(pieces);
    WEIR_RETURN_IF_ERROR(check(pieces));
    WEIR_RETURN_IF_ERROR(run_sorted(pieces));
    pieces.clear();
    return Status::ok();
  };
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const RangePacking::Band& band = packing.bands()[i];
    const Range items = items_of(band, part);
    layout::SegmentCursor cursor(band.b, items.from, items.to);
    Offset at = parts[i].at;
    while (const auto segment = cursor.next()) {
      pieces.push_back({segment->offset, segment->length, at});
      at += segment->length;
      if (pieces.size() == kMostPieces) WEIR_RETURN_IF_ERROR(flush());
    }
  }
  return flush();
}

Result<bool> SubfileIo::Transfer::run_window_of(const RangePacking& packing, Range part, Offset bytes, Range extent) {
  const Offset length = extent.to - extent.from;
  if (length > kMostWindow && length / kMostSpread > bytes) return false;
  // Bytes of one band are distinct, those of several need not be if the peer is up to something: then all are read
  // first.
  const bool is_covered = packing.bands().size() == 1 && bytes == length;
  return with_window(extent, is_covered, [&](std::byte* memory) { move_view(packing, part, memory, extent.from); });
}

// ---------------------------------------------------------------- reading

class SubfileIo::Read : public Transfer {
 public:
  Read(SubfileIo& io, SubfileId id, std::span<std::byte> message) : Transfer(io, id), message_(message) {}

 private:
  Status check(std::span<const MessagePiece>) override { return Status::ok(); }

  Status move_list(std::span<const MessagePiece> pieces) override {
    std::vector<storage::ReadPiece> list;
    for (const MessagePiece& piece : pieces) {
      list.push_back({piece.offset, message_.subspan(to_size(piece.at), to_size(piece.length))});
    }
    return io_.store_.read(id_, list);
  }

  Result<bool> with_window(Range window, bool, const Move& move) override {
    WEIR_TRY(const auto memory, io_.store_.map(id_, window.from, window.to, false));
    if (memory) {
      move(memory->data());
      return true;
    }
    if (window.to - window.from > kMostWindow) return false;
    io_.window_.resize(to_size(window.to - window.from));
    const storage::ReadPiece piece{window.from, io_.window_};
    WEIR_RETURN_IF_ERROR(io_.store_.read(id_, {&piece, 1}));
    move(io_.window_.data());
    return true;
  }

  void move_piece(const MessagePiece& piece, std::byte* window, Offset origin) override {
    std::memcpy(message_.data() + piece.at, window + (piece.offset - origin), to_size(piece.length));
  }

  void move_view(const RangePacking& packing, Range range, std::byte* window, Offset origin) override {
    const std::vector<Part> parts = parts_of(packing, range);
    const std::size_t bytes = to_size(packing.bytes(range));
    if (parts.size() == 1 || bytes == message_.size()) {
      return packing.pack_b({window, origin}, range, message_.data() + parts[0].at);
    }
    io_.message_.resize(bytes);
    packing.pack_b({window, origin}, range, io_.message_.data());
    const std::byte* from = io_.message_.data();
    for (const Part& part : parts) {
      std::copy_n(from, part.length, message_.data() + part.at);
      from += part.length;
    }
  }

  std::span<std::byte> message_;
};

// ---------------------------------------------------------------- writing

class SubfileIo::Write : public Transfer {
 public:
  Write(SubfileIo& io, SubfileId id, std::span<const std::byte> message, Offset file_end)
      : Transfer(io, id), message_(message), file_end_(file_end) {}

 private:
  Status check(std::span<const MessagePiece> sorted) override { return check_disjoint(id_, sorted); }

  Status move_list(std::span<const MessagePiece> pieces) override {
    std::vector<storage::WritePiece> list;
    for (const MessagePiece& piece : pieces) {
      list.push_back({piece.offset, message_.subspan(to_size(piece.at), to_size(piece.length))});
    }
    return io_.store_.write(id_, list, file_end_);
  }

  Result<bool> with_window(Range window, bool is_covered, const Move& move) override {
    WEIR_TRY(const auto memory, io_.store_.map(id_, window.from, window.to, true));
    if (memory) {
      move(memory->data());
      io_.store_.note_written(id_, window.to, file_end_);
      return true;
    }
    if (window.to - window.from > kMostWindow) return false;
    io_.window_.resize(to_size(window.to - window.from));
    if (!is_covered) {
      const storage::ReadPiece old{window.from, io_.window_};
      WEIR_RETURN_IF_ERROR(io_.store_.read(id_, {&old, 1}));
    }
    move(io_.window_.data());
    const storage::WritePiece piece{window.from, io_.window_};
    WEIR_RETURN_IF_ERROR(io_.store_.write(id_, {&piece, 1}, file_end_));
    return true;
  }

  void move_piece(const MessagePiece& piece, std::byte* window, Offset origin) override {
    std::memcpy(window + (piece.offset - origin), message_.data() + piece.at, to_size(piece.length));
  }

  void move_view(const RangePacking& packing, Range range, std::byte* window, Offset origin) override {
    const std::vector<Part> parts = parts_of(packing, range);
    const std::size_t bytes = to_size(packing.bytes(range));
    if (parts.size() == 1 || bytes == message_.size()) {
      return packing.unpack_b(message_.data() + parts[0].at, range, {window, origin});
    }
    io_.message_.resize(bytes);
    std::byte* to = io_.message_.data();
    for (const Part& part : parts) to = std::copy_n(message_.data() + part.at, part.length, to);
    packing.unpack_b(io_.message_.data(), range, {window, origin});
  }

  std::span<const std::byte> message_;
  Offset file_end_;
};

// ---------------------------------------------------------------- interface

Status SubfileIo::read(SubfileId id, const RangePacking& packing, Range range, std::span<std::byte> message) {
  return Read(*this, id, message).run(packing, range);
}

Status SubfileIo::write(SubfileId id, const RangePacking& packing, Range range, std::span<const std::byte> message,
                        Offset file_end) {
  return Write(*this, id, message, file_end).run(packing, range);
}

Status SubfileIo::read(SubfileId id, std::vector<MessagePiece> pieces, std::span<std::byte> message) {
  return Read(*this, id, message).run(std::move(pieces));
}

Status SubfileIo::write(SubfileId id, std::vector<MessagePiece> pieces, std::span<const std::byte> message,
                        Offset file_end) {
  return Write(*this, id, message, file_end).run(std::move(pieces));
}

}  // namespace weir::server::internal
