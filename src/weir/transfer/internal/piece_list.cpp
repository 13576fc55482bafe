#include <weir/transfer/internal/piece_list.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace weir::transfer::internal {

namespace {

constexpr std::size_t kMostPieces = std::size_t{1} << 18;
constexpr Offset kMostRange = std::numeric_limits<std::int32_t>::max();

// Lengths that the compiler knows are copied without a call.
template <std::uint32_t kLength>
struct Fixed {
  static constexpr std::uint32_t length() { return kLength; }
};
struct Any {
  std::uint32_t value;
  [[nodiscard]] std::uint32_t length() const { return value; }
};

// Calls visit(offset, length) for all segments of a set, in its order, as long as that returns true.
template <typename Visit>
bool for_segments(const layout::FallsSet& set, Offset base, Visit& visit) {
  for (const layout::Falls& falls : set) {
    for (Offset i = 0; i < falls.count; ++i) {
      const Offset start = base + falls.left + i * falls.stride;
      const bool goes_on =
          falls.inner.empty() ? visit(start, falls.right - falls.left + 1) : for_segments(falls.inner, start, visit);
      if (!goes_on) return false;
    }
  }
  return true;
}

}  // namespace

PieceList::PieceList(const layout::Element& a, const layout::Element& b, Range range) : range_(range) {
  if (range.to - range.from > kMostRange) {
    range_.to = range.from + kMostRange;
    is_whole_ = false;
  }
  // As if all were as long as the first: growing would copy them again and again.
  const Offset first = std::max<Offset>(a.segment_at(range.from, range_.to - range.from).length, 1);
  pieces_.reserve(std::min(static_cast<std::size_t>((range_.to - range.from) / first + 1), kMostPieces));
  if (a.is_monotone() && b.is_monotone()) {
    list_in_file_order(a, b);
  } else {
    list_in_order_of_a(a, b);
  }
  pack();
  if (pieces_.size() < pieces_.capacity() / 2) pieces_.shrink_to_fit();
}

void PieceList::pack() {
  constexpr std::uint32_t kLongestUnit = 16;
  if (pieces_.empty() || extent_.to - extent_.from > std::numeric_limits<std::uint32_t>::max()) return;
  std::uint32_t lengths = kLongestUnit;  // all bits of them: the lowest is a power of two that divides all
  std::size_t runs = 0;
  std::uint32_t end = 0;
  for (const Piece& piece : pieces_) {
    lengths |= piece.length;
    if (runs == 0 || piece.a != end) ++runs;
    end = piece.a + piece.length;
  }
  const std::uint32_t unit = lengths & -lengths;
  const std::size_t units = static_cast<std::size_t>(bytes_) / unit;
  if (units > 2 * pieces_.size() || runs > pieces_.size() / 4 + 1) return;
  unit_ = unit;
  places_.reserve(units);
  runs_.reserve(runs);
  for (const Piece& piece : pieces_) {
    if (runs_.empty() || piece.a != runs_.back().a + runs_.back().units * unit) runs_.push_back({piece.a, 0});
    const auto place = static_cast<std::uint32_t>(piece.b - extent_.from);
    for (std::uint32_t at = 0; at < piece.length; at += unit) places_.push_back(place + at);
    runs_.back().units += piece.length / unit;
  }
  pieces_ = {};
}

inline bool PieceList::add(Offset a, Offset b, Offset length) {
  const auto at = static_cast<std::uint32_t>(a - range_.from);
  if (pieces_.empty()) {
    extent_ = {b, b};
  } else {
    Piece& last = pieces_.back();
    if (last.a + last.length == at && last.b + last.length == b) {
      last.length += static_cast<std::uint32_t>(length);
      extent_.to = std::max(extent_.to, b + length);
      bytes_ += length;
      return true;
    }
  }
  if (pieces_.size() == kMostPieces) {
    range_.to = a;
    is_whole_ = false;
    return false;
  }
  extent_ = {std::min(extent_.from, b), std::max(extent_.to, b + length)};
  bytes_ += length;
  pieces_.push_back({at, static_cast<std::uint32_t>(length), b});
  return true;
}

// Both ascend in the file: side by side.
void PieceList::list_in_file_order(const layout::Element& a, const layout::Element& b) {
  layout::Segment there{0, 0};  // of b: the one that was looked at last
  Offset there_at = 0;          // its first byte, counted in b
  Offset at = range_.from;      // in a
  auto visit = [&](Offset offset, Offset length) {
    const Offset end = offset + length;
    if (offset >= there.offset && end <= there.offset + there.length) {  // as most are, of many small ones
      const Offset from = at;
      at += length;
      return add(from, there_at + (offset - there.offset), length);
    }
    while (offset < end) {
      if (offset >= there.offset + there.length) {
        there_at = b.count_below(offset);
        there = b.segment_at(there_at, kMaxBytes);
        if (there.length == 0) there = {kMaxBytes, 1};  // nothing more
      }
      const Offset start = std::max(offset, there.offset);
      const Offset stop = std::min(end, there.offset + there.length);
      if (start < stop && !add(at + (start - offset), there_at + (start - there.offset), stop - start)) return false;
      const Offset next = std::max(std::min(end, start), stop);
      at += next - offset;
      offset = next;
    }
    return true;
  };
  const Offset size = a.size();
  for (Offset period = range_.from / size; period * size < range_.to; ++period) {
    const Offset from = std::max<Offset>(range_.from - period * size, 0);
    const Offset to = std::min(range_.to - period * size, size);
    const Offset base = a.disp() + period * a.period();
    const bool goes_on = from == 0 && to == size ? for_segments(a.falls(), base, visit)
                                                 : for_segments(layout::subsequence(a.falls(), from, to), base, visit);
    if (!goes_on) return;
  }
}

void PieceList::list_in_order_of_a(const layout::Element& a, const layout::Element& b) {
  layout::PieceCursor cursor(a, b, layout::Order::kA, {.file = {}, .a = range_, .b = {}});
  while (const auto piece = cursor.next()) {
    if (!add(piece->a, piece->b, piece->length)) return;
  }
}

// Calls move(offset in a from range_.from on, offset in b from extent_.from on, length) for all pieces or units.
template <typename Move>
void PieceList::for_all(Move move) const {
  const auto run_units = [&](auto unit) {
    const std::uint32_t* place = places_.data();
    for (const Run& run : runs_) {
      const std::uint32_t end = run.a + run.units * unit.length();
      for (std::uint32_t a = run.a; a < end; a += unit.length()) move(a, Offset{*place++}, unit);
    }
  };
  switch (unit_) {
    case 1: return run_units(Fixed<1>());
    case 2: return run_units(Fixed<2>());
    case 4: return run_units(Fixed<4>());
    case 8: return run_units(Fixed<8>());
    case 16: return run_units(Fixed<16>());
    default: break;
  }
  for (const Piece& piece : pieces_) move(piece.a, piece.b - extent_.from, Any{piece.length});
}

void PieceList::copy_to_b(const std::byte* a, std::byte* b) const {
  for_all([=](std::uint32_t from, Offset to, auto size) { std::memcpy(b + to, a + from, size.length()); });
}

void PieceList::copy_to_a(const std::byte* b, std::byte* a) const {
  for_all([=](std::uint32_t to, Offset from, auto size) { std::memcpy(a + to, b + from, size.length()); });
}

void PieceList::clear_a(std::byte* a) const {
  for_all([=](std::uint32_t at, Offset, auto size) { std::memset(a + at, 0, size.length()); });
}

void PieceList::pack_a(const std::byte* a, std::byte* message) const {
  for_all([=](std::uint32_t from, Offset, auto size) mutable {
    std::memcpy(message, a + from, size.length());
    message += size.length();
  });
}

void PieceList::unpack_a(const std::byte* message, std::byte* a) const {
  for_all([=](std::uint32_t to, Offset, auto size) mutable {
    std::memcpy(a + to, message, size.length());
    message += size.length();
  });
}

std::shared_ptr<const PieceList> PieceLists::of(const layout::Element& a, const layout::Element& b, Range range) {
  const auto serves = [&](const std::shared_ptr<const PieceList>& list) {
    const Range covered = list->range();
    return covered.from == range.from && (list->is_whole() ? covered.to == range.to : covered.to <= range.to);
  };
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), serves);
    if (found != kept_.end()) return *found;
  }
  auto list = std::make_shared<const PieceList>(a, b, range);
  const std::lock_guard lock(mutex_);
  if (kept_.size() < kMostKept) {
    kept_.push_back(list);
  } else {
    kept_[oldest_++ % kMostKept] = list;
  }
  return list;
}

}  // namespace weir::transfer::internal
