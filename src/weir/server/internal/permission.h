#pragma once

// The permission bits of POSIX: the first of owner, group and others that fits decides.  User 0 may do everything.

#include <algorithm>
#include <cstdint>

#include <weir/net/net.h>
#include <weir/wire/wire.h>

namespace weir::server::internal {

inline constexpr std::uint32_t kMayRead = 4;
inline constexpr std::uint32_t kMayWrite = 2;
inline constexpr std::uint32_t kMaySearch = 1;
inline constexpr std::uint32_t kOwns = 8;        ///< Among the rights to a file: what only its owner may do.
inline constexpr std::uint32_t kSticky = 01000;  ///< In such a directory, one removes only what is one's own.
inline constexpr std::uint32_t kModeBits = 07777;

inline bool is_superuser(const net::Identity& who) noexcept { return who.uid == 0; }

inline bool is_in_group(const net::Identity& who, std::uint32_t gid) {
  return who.gid == gid || std::find(who.groups.begin(), who.groups.end(), gid) != who.groups.end();
}

inline bool is_owner(const wire::AttributesT& what, const net::Identity& who) noexcept {
  return is_superuser(who) || who.uid == what.uid;
}

/// True if `who` may do all of `access` (kMayRead | ...) with `what`.
inline bool may(const wire::AttributesT& what, const net::Identity& who, std::uint32_t access) {
  if (is_superuser(who)) return true;
  const int shift = who.uid == what.uid ? 6 : is_in_group(who, what.gid) ? 3 : 0;
  return ((what.mode >> shift) & access) == access;
}

/// All that `who` may do with the bytes of a file.
inline std::uint8_t rights_of(const wire::AttributesT& file, const net::Identity& who) {
  return static_cast<std::uint8_t>((may(file, who, kMayRead) ? kMayRead : 0) |
                                   (may(file, who, kMayWrite) ? kMayWrite : 0) | (is_owner(file, who) ? kOwns : 0));
}

/// True if `who`, who may write `directory`, may also take `what` out of it.
inline bool may_take_out(const wire::AttributesT& directory, const wire::AttributesT& what, const net::Identity& who) {
  return (directory.mode & kSticky) == 0 || is_owner(directory, who) || is_owner(what, who);
}

}  // namespace weir::server::internal
