#include <weir/layout/band.h>

#include <algorithm>

namespace weir::layout {

Offset piece_count(const Band& band) noexcept {
  Offset pieces = 1;
  for (const Loop& loop : band.loops) pieces *= loop.count;
  return pieces;
}

bool is_nested(const Band& band, Order order) noexcept {
  Offset extent = band.piece.length;
  for (auto loop = band.loops.rbegin(); loop != band.loops.rend(); ++loop) {
    if (step_of(*loop, order) < extent) return false;
    extent += (loop->count - 1) * step_of(*loop, order);
  }
  return true;
}

Offset key_of(const Piece& piece, Order order) noexcept {
  return order == Order::kFile ? piece.file : order == Order::kA ? piece.a : piece.b;
}

Offset step_of(const Loop& loop, Order order) noexcept {
  return order == Order::kFile ? loop.file : order == Order::kA ? loop.a : loop.b;
}

bool continues(const Piece& piece, const Piece& next, Order order) noexcept {
  return piece.a + piece.length == next.a && piece.b + piece.length == next.b &&
         (order != Order::kFile || piece.file + piece.length == next.file);
}

void move(Piece& piece, const Loop& loop, Offset turns) noexcept {
  piece.file += turns * loop.file;
  piece.a += turns * loop.a;
  piece.b += turns * loop.b;
}

namespace {

// Turns loops whose pieces continue each other into longer pieces.
void melt(Band& band, Order order) {
  while (!band.loops.empty()) {
    const Loop& loop = band.loops.back();
    Piece next = band.piece;
    move(next, loop, 1);
    if (!continues(band.piece, next, order)) return;
    band.piece.length *= loop.count;
    band.loops.pop_back();
  }
}

bool same_steps(const Band& x, const Band& y) {
  if (x.loops.size() != y.loops.size()) return false;
  for (std::size_t i = 0; i < x.loops.size(); ++i) {
    Loop loop = y.loops[i];
    if (i == 0) loop.count = x.loops[i].count;  // the outermost may turn more often
    if (!(x.loops[i] == loop)) return false;
  }
  return true;
}

// Splits off the outermost turns from `turns` on.
Band split(Band& band, Offset turns) {
  Band rest = band;
  move(rest.piece, band.loops.front(), turns);
  rest.loops.front().count -= turns;
  band.loops.front().count = turns;
  return rest;
}

// One pass: bands next to each other that continue each other at every turn become one.
std::vector<Band> join(std::vector<Band> bands, Order order) {
  std::sort(bands.begin(), bands.end(),
            [order](const Band& x, const Band& y) { return key_of(x.piece, order) < key_of(y.piece, order); });
  std::vector<Band> out;
  std::vector<Band> rests;
  for (Band& band : bands) {
    if (out.empty() || !continues(out.back().piece, band.piece, order) || !same_steps(out.back(), band)) {
      out.push_back(std::move(band));
      continue;
    }
    Band& last = out.back();
    if (!band.loops.empty()) {
      const Offset turns = std::min(last.loops.front().count, band.loops.front().count);
      for (Band* longer : {&last, &band}) {
        if (longer->loops.front().count > turns) rests.push_back(split(*longer, turns));
      }
    }
    last.piece.length += band.piece.length;
  }
  for (Band& band : out) melt(band, order);
  out.insert(out.end(), std::make_move_iterator(rests.begin()), std::make_move_iterator(rests.end()));
  return out;
}

void append_pieces(const Band& band, std::size_t depth, const Piece& at, std::vector<Band>& out) {
  if (depth == band.loops.size()) return out.push_back({at, {}});
  Piece piece = at;
  for (Offset i = 0; i < band.loops[depth].count; ++i) {
    append_pieces(band, depth + 1, piece, out);
    move(piece, band.loops[depth], 1);
  }
}

// A window cuts families into heads, bodies and tails that may go on in each other at single turns only, which join()
// does not see.  Where there are few pieces, they are joined one by one.
std::vector<Band> join_singly(std::vector<Band> bands, Order order) {
  constexpr Offset kFewPieces = 256;
  Offset pieces = 0;
  for (const Band& band : bands) {
    pieces += std::min(piece_count(band), kFewPieces + 1);  // endless bands have more pieces than can be added up
    if (pieces > kFewPieces) return bands;
  }
  if (bands.size() < 2) return bands;
  std::vector<Band> singles;
  for (const Band& band : bands) append_pieces(band, 0, band.piece, singles);
  singles = join(std::move(singles), order);
  return singles.size() < bands.size() ? singles : bands;
}

std::vector<Band> make_bands(const Mapping& mapping, Order order, const Loop* period) {
  std::vector<Band> bands;
  for (const Run& run : mapping.runs()) {
    const auto loops = mapping.loops(run);
    Band band{{run.file, run.a, run.b, run.length}, {loops.begin(), loops.end()}};
    if (period) band.loops.push_back(*period);
    std::sort(band.loops.begin(), band.loops.end(),
              [order](const Loop& x, const Loop& y) { return step_of(x, order) > step_of(y, order); });
    melt(band, order);
    bands.push_back(std::move(band));
  }
  for (std::size_t before = 0; bands.size() > 1 && bands.size() != before;) {
    before = bands.size();
    bands = join(std::move(bands), order);
  }
  return join_singly(std::move(bands), order);
}

}  // namespace

std::vector<Band> bands_of(const Mapping& mapping, Order order) { return make_bands(mapping, order, nullptr); }

std::vector<Band> endless_bands_of(const Mapping& mapping, Order order) {
  const Offset turns = (kMaxBytes - mapping.disp()) / mapping.period();
  const Loop period{turns, mapping.period(), mapping.a_period(), mapping.b_period()};
  return make_bands(mapping, order, turns > 1 ? &period : nullptr);
}

}  // namespace weir::layout
