#pragma once

// The operations of a parallel file by number: so that ranks can compare their calls, and messages name them as the
// caller knows them.

#include <array>
#include <cstdint>
#include <string_view>

#include <weir/base/checked.h>

namespace weir::pario {

/// Where an access starts.
enum class Pointer : std::uint8_t { kIndividual, kExplicit, kOrdered, kShared };

/// How an access is made.
enum class Mode : std::uint8_t {
  kBlocking,
  kStarted,  ///< File::start
  kSplit,    ///< File::begin and end
};

enum class Operation : std::uint8_t {
  kOpen,
  kClose,
  kRemove,
  kGetSize,
  kSetSize,
  kPreallocate,
  kSetHints,
  kSetView,
  kSetAtomicity,
  kSync,
  kSeek,
  kSeekShared,
  kPosition,
  kPositionShared,
  kByteOffset,
  kFirstAccess,  ///< Collective ones: by mode; there by pointer; there reads, then writes.
};
inline constexpr std::size_t kPointers = 3;  // of collective accesses
inline constexpr std::size_t kModes = 3;
inline constexpr std::size_t kOperations = static_cast<std::size_t>(Operation::kFirstAccess) + kModes * kPointers * 2;

/// \pre pointer is not kShared: such accesses are not collective
constexpr Operation collective_access(Mode mode, Pointer pointer, bool is_write) {
  return static_cast<Operation>(static_cast<std::size_t>(Operation::kFirstAccess) +
                                (static_cast<std::size_t>(mode) * kPointers + static_cast<std::size_t>(pointer)) * 2 +
                                (is_write ? 1 : 0));
}

/// By operation.
using CallNames = std::array<std::string_view, kOperations>;

inline constexpr CallNames kOwnNames{
    "open",
    "close",
    "remove",
    "get size",
    "set size",
    "preallocate",
    "set hints",
    "set view",
    "set atomicity",
    "sync",
    "seek",
    "seek shared",
    "get position",
    "get shared position",
    "get byte offset",
    "collective read",
    "collective write",
    "collective read at an offset",
    "collective write at an offset",
    "ordered read",
    "ordered write",
    "start collective read",
    "start collective write",
    "start collective read at an offset",
    "start collective write at an offset",
    "start ordered read",
    "start ordered write",
    "begin collective read",
    "begin collective write",
    "begin collective read at an offset",
    "begin collective write at an offset",
    "begin ordered read",
    "begin ordered write",
};

}  // namespace weir::pario
