#include <weir/cli/internal/palette.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace weir::cli::internal {
namespace {

// Okabe and Ito's colours, the palest last but one and black last: both are the hardest to write on.
constexpr std::array<Rgb, 8> kOkabeIto{{{230, 159, 0},
                                        {86, 180, 233},
                                        {0, 158, 115},
                                        {204, 121, 167},
                                        {0, 114, 178},
                                        {213, 94, 0},
                                        {240, 228, 66},
                                        {0, 0, 0}}};

std::uint8_t to_byte(double share) { return static_cast<std::uint8_t>(std::lround(std::clamp(share, 0.0, 1.0) * 255)); }

/// Hue in turns, saturation and lightness in [0, 1].
Rgb from_hsl(double hue, double saturation, double lightness) {
  const double amplitude = saturation * std::min(lightness, 1 - lightness);
  const auto channel = [&](double n) {
    const double k = std::fmod(n + hue * 12, 12);
    return to_byte(lightness - amplitude * std::max(-1.0, std::min({k - 3, 9 - k, 1.0})));
  };
  return {channel(0), channel(8), channel(4)};
}

}  // namespace

Rgb element_color(Offset index, Offset count) {
  if (count <= static_cast<Offset>(kOkabeIto.size())) return kOkabeIto[static_cast<std::size_t>(floor_mod(index, 8))];
  const Offset hues = std::min(count, kColors);
  const Offset hue = floor_mod(index, hues);
  return from_hsl(static_cast<double>(hue) / static_cast<double>(hues), 0.65, hue % 2 == 0 ? 0.45 : 0.68);
}

bool is_light(Rgb color) { return 299 * color.red + 587 * color.green + 114 * color.blue > 128 * 1000; }

std::string to_hex(Rgb color) { return fmt::format("#{:02x}{:02x}{:02x}", color.red, color.green, color.blue); }

int to_terminal_color(Rgb color) {
  // The cube's levels are 0, 95, 135, 175, 215, 255.
  const auto level = [](int channel) { return channel < 48 ? 0 : channel < 115 ? 1 : (channel - 35) / 40; };
  return 16 + 36 * level(color.red) + 6 * level(color.green) + level(color.blue);
}

char element_character(Offset index) {
  constexpr char kCharacters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return kCharacters[floor_mod(index, kElementCharacters)];
}

}  // namespace weir::cli::internal
