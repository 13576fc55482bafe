#pragma once

// Capabilities: what proves to every server what server 0 allows a user to do with the bytes of a file.
//
//   version (1)  rights (1)  0 (2)  uid (4)  file (8)  data (8)  source (8)  expires_ns (8)  MAC (32)      little-endian
//
// The MAC is crypto_auth of libsodium over all before it, by a key that is derived from the secret of the servers: only
// they can make one, and each of them can check it without asking another.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <weir/base/result.h>
#include <weir/net/net.h>
#include <weir/server/internal/permission.h>

namespace weir::server::internal {

struct Capability {
  std::uint8_t rights = 0;      ///< kMayRead | kMayWrite | kOwns
  std::uint32_t uid = 0;        ///< Only this user may present it.
  std::uint64_t file = 0;       ///< The file number.
  std::uint64_t data = 0;       ///< What the subfiles are filed under that it is for.
  std::uint64_t source = 0;     ///< During a relayout: the data that `data` may be pulled from.  0: none.
  std::int64_t expires_ns = 0;  ///< Since 1970.
  friend bool operator==(const Capability&, const Capability&) = default;
};

inline constexpr std::size_t kCapabilityBytes = 72;

/// \threadsafety Safe.
class CapabilityKey {
 public:
  /// \error kInvalidArgument if it is not the secret of servers
  static Result<CapabilityKey> derive(const net::Key& secret);

  [[nodiscard]] std::vector<std::uint8_t> seal(const Capability& capability) const;
  /// Nothing unless it was sealed with this key, bit for bit.  It may have expired.
  [[nodiscard]] std::optional<Capability> open(std::span<const std::uint8_t> bytes) const;

 private:
  using Bytes = std::array<unsigned char, 32>;
  explicit CapabilityKey(const Bytes& bytes) : bytes_(bytes) {}

  Bytes bytes_;
};

}  // namespace weir::server::internal
