#pragma once

// For the tests: ranks that are threads, and a file system in the same process.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/embedded/embedded.h>
#include <weir/group/testing/run_ranks.h>
#include <weir/pario/file.h>

namespace weir::pario::internal {

using Bytes = std::vector<std::byte>;

/// The k-th byte that a rank writes.
inline std::byte byte_of(std::uint64_t seed, int rank, std::size_t k) {
  return static_cast<std::byte>(1 + (k * 7 + static_cast<std::size_t>(rank) * 31 + seed * 13) % 251);
}

inline Bytes bytes_of(std::uint64_t seed, int rank, Offset count) {
  Bytes bytes(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] = byte_of(seed, rank, k);
  return bytes;
}

/// Pieces of `piece` bytes, of which each of `ranks` has every ranks-th.
inline layout::Element cyclic(Offset disp, Offset piece, int rank, int ranks) {
  return layout::Element::create({{rank * piece, (rank + 1) * piece - 1, 0, 1, {}}},
                                 {.disp = disp, .period = ranks * piece})
      .value();
}

inline Memory memory_of(Bytes& bytes) { return {.data = bytes.data()}; }

constexpr AccessRequest kCollectiveWrite{.is_write = true, .pointer = Pointer::kIndividual, .is_collective = true};
constexpr AccessRequest kCollectiveRead{.is_write = false, .pointer = Pointer::kIndividual, .is_collective = true};

inline Status write_at(File& file, Offset offset, Bytes bytes) {
  AccessResult result;
  return file.access({.is_write = true, .offset = offset}, memory_of(bytes), static_cast<Offset>(bytes.size()), result);
}

/// What the view shows from `offset` on, at most `count` bytes.
inline Bytes read_at(File& file, Offset offset, Offset count) {
  Bytes bytes(static_cast<std::size_t>(count));
  AccessResult result;
  EXPECT_THAT(file.access({.offset = offset}, memory_of(bytes), count, result), weir::testing::IsOk());
  bytes.resize(static_cast<std::size_t>(result.bytes));
  return bytes;
}

/// An open file of one rank.
using Work = std::function<void(File& file)>;

inline OpenOptions created(const Hints& hints = {}) {
  OpenOptions options;
  options.is_created = true;
  options.hints = hints;
  return options;
}

/// Opens a file on so many ranks, works, and closes it.
inline void run_on_file(const Embedded& servers, int ranks, const std::string& path, const Hints& hints,
                        const Work& work) {
  group::testing::run_ranks(ranks, [&](std::unique_ptr<group::Group> group) {
    const auto file = File::open(std::move(group), servers.file_system(), path, created(hints));
    ASSERT_THAT(file, weir::testing::IsOk());
    work(**file);
    EXPECT_THAT((*file)->close(), weir::testing::IsOk());
  });
}

}  // namespace weir::pario::internal
