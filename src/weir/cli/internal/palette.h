#pragma once

#include <cstdint>
#include <string>

#include <weir/base/checked.h>

namespace weir::cli::internal {

struct Rgb {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

/// From this many elements on colours repeat.
inline constexpr Offset kColors = 24;

/// The colour of element `index` of `count`: the Okabe-Ito set, which colour-blind readers can tell apart, for up to 8
/// elements; evenly spaced hues of two lightnesses, at most kColors of them, beyond.
Rgb element_color(Offset index, Offset count);

/// For bytes that no element holds, and for cells that several hold.
inline constexpr Rgb kNobodyColor{255, 255, 255};
inline constexpr Rgb kSeveralColor{190, 190, 190};

/// True if black text is easier to read on this colour than white text.
bool is_light(Rgb color);

std::string to_hex(Rgb color);     ///< "#rrggbb"
int to_terminal_color(Rgb color);  ///< Nearest colour of the 6 x 6 x 6 cube of 256-colour terminals.

/// The character of an element in text pictures: 0-9, a-z, A-Z, then again from 0.
char element_character(Offset index);
inline constexpr Offset kElementCharacters = 62;

}  // namespace weir::cli::internal
