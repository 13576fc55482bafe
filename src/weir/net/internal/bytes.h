#pragma once

// Little-endian numbers to bytes and back.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

namespace weir::net::internal {

template <std::unsigned_integral Number>
void put(std::byte* out, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral Number>
void append(std::vector<std::byte>& out, Number value) {
  out.resize(out.size() + sizeof value);
  put(out.data() + out.size() - sizeof value, value);
}

inline void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  // Not insert(): GCC 12 warns of an overflow that is not there.
  const std::size_t before = out.size();
  out.resize(before + bytes.size());
  std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(before));
}

/// Reads from the front of bytes that may be too short: then is_ok() is false for good, and what was read is zero.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <std::unsigned_integral Number>
  Number number() {
    Number value = 0;
    const std::span<const std::byte> taken = bytes(sizeof value);
    for (std::size_t i = 0; i < taken.size(); ++i)
      value = static_cast<Number>(value | static_cast<Number>(std::to_integer<Number>(taken[i]) << (8 * i)));
    return value;
  }

  /// All of `count`, or none.
  std::span<const std::byte> bytes(std::size_t count) {
    if (count > rest_.size()) {
      is_ok_ = false;
      return {};
    }
    const std::span<const std::byte> taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }
  [[nodiscard]] bool is_ok() const { return is_ok_; }
  [[nodiscard]] bool is_finished() const { return is_ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool is_ok_ = true;
};

}  // namespace weir::net::internal
