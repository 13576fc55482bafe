#pragma once

#include <weir/layout/mapping.h>

namespace weir::layout {

/// A run with its loops sorted by step in one address space, slowest first: stepped like an odometer, its pieces come
/// in order.
struct Band {
  Piece piece;
  std::vector<Loop> loops;
};

/// The runs of a mapping in the order asked for.  Those that continue each other at every turn are one band, so that
/// patterns which fit are walked in long pieces, and one that fits throughout in a single piece, however many segments
/// it has.
std::vector<Band> bands_of(const Mapping& mapping, Order order);

/// The same, repeated with the mapping's period to the end of the file.  \pre mapping.is_periodic()
std::vector<Band> endless_bands_of(const Mapping& mapping, Order order);

/// Pieces that the loops of a band yield.
Offset piece_count(const Band& band) noexcept;

/// True if a turn of every loop ends before the next one starts: pieces come in ascending order, and a range of the
/// address space cuts off whole turns.
bool is_nested(const Band& band, Order order) noexcept;

Offset key_of(const Piece& piece, Order order) noexcept;
Offset step_of(const Loop& loop, Order order) noexcept;

/// True if `next` goes on where `piece` ends: in both elements, and in file order also in the file.
bool continues(const Piece& piece, const Piece& next, Order order) noexcept;

/// Moves a piece by so many turns of a loop.
void move(Piece& piece, const Loop& loop, Offset turns) noexcept;

}  // namespace weir::layout
