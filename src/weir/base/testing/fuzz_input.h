#pragma once

// Values out of the input of a fuzzer.  When it is used up, all further values are 0.
//
//   FuzzInput in(data, size);
//   while (!in.empty()) switch (in.below(3)) { ... }

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::testing {

/// Ends the program, as a crash would, unless `condition`.
inline void require(bool condition, std::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "fuzzer: not true: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }

  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const std::uint8_t first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  bool flag() { return byte() % 2 != 0; }
  /// Of [0, count).  \pre 0 < count <= 256
  std::size_t below(std::size_t count) { return byte() % count; }
  std::uint16_t u16() {
    const unsigned low = byte();
    return static_cast<std::uint16_t>(low | static_cast<unsigned>(byte()) << 8);
  }
  std::uint64_t u64() {
    std::uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 8) number |= std::uint64_t{byte()} << shift;
    return number;
  }
  /// Small ones as they are (up to 199), others near limits, or any.
  std::int64_t number() {
    const std::uint8_t what = byte();
    if (what < 200) return what;
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t kLimits[] = {
        -1,       -2,       4095,     4096,     4097,     65535,          65536,          65537, std::int64_t{1} << 20,
        1L << 24, 1L << 31, 1L << 32, 1L << 44, 1L << 62, (1L << 62) - 1, (1L << 62) + 1, kMost, -kMost - 1};
    const std::size_t at = what - 200U;
    return at < std::size(kLimits) ? kLimits[at] : static_cast<std::int64_t>(u64());
  }
  template <typename T, std::size_t N>
  const T& one_of(const T (&values)[N]) {
    return values[below(N)];
  }
  /// At most `most` bytes: as many as the input says next.
  std::vector<std::uint8_t> bytes(std::size_t most) {
    const std::size_t wanted = most <= 255 ? byte() % (most + 1) : u16() % (most + 1);
    return take(wanted);
  }
  std::string text(std::size_t most) {
    const std::vector<std::uint8_t> some = bytes(most);
    return {some.begin(), some.end()};
  }
  /// As many as there are, at most `count`.
  std::vector<std::uint8_t> take(std::size_t count) {
    const auto some = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(some.size());
    return {some.begin(), some.end()};
  }
  std::vector<std::uint8_t> rest() { return take(left_.size()); }

 private:
  std::span<const std::uint8_t> left_;
};

}  // namespace weir::testing
