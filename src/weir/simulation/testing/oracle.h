#pragma once

// What a file may hold, byte by byte, as far as its one writer was told.  For tests only.
//
// A byte holds what was written to it last.  A write that failed may have happened or not.  A crash may undo what was not
// synced; then the next sync of the writer must fail.  A sync that succeeds settles everything before it.

#include <bitset>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <weir/base/checked.h>
#include <weir/base/text.h>

namespace weir::simulation {

class Oracle {
 public:
  explicit Oracle(Offset bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    for (Byte& byte : bytes_) byte.expected.set(0);
    for (Byte& byte : bytes_) byte.possible = byte.expected;
  }

  /// `may_be_lost`: a server has crashed since the write began, so what it had written by then may be gone.
  void write(Offset at, std::byte value, bool is_done, bool may_be_lost = false) {
    Byte& byte = bytes_[static_cast<std::size_t>(at)];
    const std::size_t bit = std::to_integer<std::size_t>(value);
    byte.unsynced |= byte.possible;
    if (is_done) {
      byte.expected.reset();
      byte.possible.reset();
    }
    byte.expected.set(bit);
    byte.possible.set(bit);
    if (may_be_lost) byte.possible |= byte.unsynced;
  }

  /// A server has lost what was not synced, or part of it.
  void crash() {
    for (Byte& byte : bytes_) byte.possible |= byte.unsynced;
  }

  /// Of the bytes that a writer owns.
  void sync(std::span<const Offset> owned, bool is_done) {
    for (const Offset at : owned) {
      Byte& byte = bytes_[static_cast<std::size_t>(at)];
      if (is_done) {
        byte.possible = byte.expected;
        byte.unsynced.reset();
      } else {
        byte.possible |= byte.unsynced;
        byte.expected = byte.possible;
      }
    }
  }

  /// Nothing if `value` may be there, otherwise what is wrong.
  [[nodiscard]] std::optional<std::string> check(Offset at, std::byte value) const {
    const Byte& byte = bytes_[static_cast<std::size_t>(at)];
    const std::size_t bit = std::to_integer<std::size_t>(value);
    if (byte.possible.test(bit)) return std::nullopt;
    std::string allowed;
    for (std::size_t i = 0; i < 256; ++i) {
      if (byte.possible.test(i)) allowed += concat(allowed.empty() ? "" : " or ", i);
    }
    return concat("byte ", at, " is ", bit, " instead of ", allowed);
  }

 private:
  struct Byte {
    std::bitset<256> expected;  // if nothing was lost
    std::bitset<256> possible;
    std::bitset<256> unsynced;  // what a crash may bring back
  };
  std::vector<Byte> bytes_;
};

}  // namespace weir::simulation
