#pragma once

#include <cstdint>

#include <weir/base/result.h>
#include <weir/base/text.h>

namespace weir {

/// A byte position or a number of bytes.  Signed, so that differences are ordinary values.
using Offset = std::int64_t;

/// No file, element or pattern is longer than this; sums of two valid offsets cannot overflow.
inline constexpr Offset kMaxBytes = Offset{1} << 62;

inline Result<Offset> checked_add(Offset a, Offset b) {
  Offset sum;
  if (__builtin_add_overflow(a, b, &sum) || sum > kMaxBytes || sum < -kMaxBytes) {
    return out_of_range(concat(a, " + ", b, " leaves the range of file offsets (2^62 bytes)"));
  }
  return sum;
}

inline Result<Offset> checked_mul(Offset a, Offset b) {
  Offset product;
  if (__builtin_mul_overflow(a, b, &product) || product > kMaxBytes || product < -kMaxBytes) {
    return out_of_range(concat(a, " * ", b, " leaves the range of file offsets (2^62 bytes)"));
  }
  return product;
}

/// Quotient rounded towards minus infinity.  \pre divisor > 0
constexpr Offset floor_div(Offset dividend, Offset divisor) noexcept {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

/// Quotient rounded towards plus infinity.  \pre divisor > 0
constexpr Offset ceil_div(Offset dividend, Offset divisor) noexcept {
  return dividend / divisor + (dividend % divisor > 0 ? 1 : 0);
}

/// Remainder in [0, divisor).  \pre divisor > 0
constexpr Offset floor_mod(Offset dividend, Offset divisor) noexcept {
  const Offset remainder = dividend % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

}  // namespace weir
