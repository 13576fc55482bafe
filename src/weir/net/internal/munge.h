#pragma once

// MUNGE, by which the hosts of a centre tell each other who calls: a daemon on the caller's host makes a credential that
// names the user and the group of the process that asked for it, and the daemon on the listener's host, which has the
// same key, vouches for it, once.
//
// A credential carries a payload: here, what ties it to one connection, so that it is worthless on any other.
//
// libmunge is loaded when it is first needed.  Calls wait for the daemon, seconds if it hangs: not for event loops.

#include <cstdint>
#include <span>
#include <string>

#include <weir/base/result.h>
#include <weir/net/net.h>

namespace weir::net::internal {

/// How a listener identifies callers of other hosts.
enum class MungeUse : std::uint8_t {
  kAuto,     ///< By MUNGE if its daemon answers when the listener starts, otherwise by the key.
  kRequire,  ///< By MUNGE.
  kOff,      ///< By the key: those who have it act as its owner.
};
/// As WEIR_MUNGE says: auto, require or off.  \error kInvalidArgument
Result<MungeUse> munge_use_by(const runtime::Settings& settings);

/// \threadsafety Safe from any thread.
class Munge {
 public:
  /// As WEIR_MUNGE_SOCKET says where the daemon is; the usual place if it is not set.
  explicit Munge(const runtime::Settings& settings) : socket_(settings.get("WEIR_MUNGE_SOCKET")) {}

  struct User {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
  };
  /// \error kUnavailable if libmunge or its daemon is missing
  [[nodiscard]] Result<std::string> encode(std::span<const std::byte> payload) const;
  /// Who made the credential.  \error kPermission if it is not good, was shown before, is too old, or has another
  /// payload; kUnavailable as above
  [[nodiscard]] Result<User> decode(const std::string& credential, std::span<const std::byte> payload) const;

 private:
  const std::string socket_;
};

/// The groups of a user, as this host knows them; none if it does not know the user.  May wait for a directory service.
std::vector<std::uint32_t> groups_of(std::uint32_t uid, std::uint32_t gid);

}  // namespace weir::net::internal
