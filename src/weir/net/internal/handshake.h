#pragma once

// The handshake: both ends prove to each other that they have the key, over fresh random numbers, without sending it.
//
//   caller  ── kHello      "WEIR", version, nonce_c ──────────────────────────────────> listener
//           <─ kChallenge  version, nonce_s, MAC("listener", nonces) ───────────────────
//           ── kProof      MAC("caller", nonces, identity), identity ──────────────────>
//           <─ kWelcome  ── or, at any point, ── kRefusal  code, version, text ─────────
//
// MAC is HMAC-SHA512-256 with the key (libsodium's crypto_auth), over the version too.  Each direction of the
// connection then has a session number, also a MAC over the nonces, that every frame carries.  What travels is proven,
// not hidden: on networks that others can listen to, use one that encrypts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <weir/base/result.h>
#include <weir/net/net.h>

namespace weir::net::internal {

inline constexpr std::size_t kNonceBytes = 32;
using Nonce = std::array<std::byte, kNonceBytes>;

/// Session numbers: what frames to the listener and to the caller carry.
struct Sessions {
  std::uint64_t to_listener = 0;
  std::uint64_t to_caller = 0;
};

struct Secrets {
  Key key;
  std::uint32_t version = kProtocolVersion;
  Nonce caller_nonce{};
  Nonce listener_nonce{};
};

/// As a proof carries it.
Bytes encode(const Identity& identity);
/// \error kCorrupt
Result<Identity> decode_identity(std::span<const std::byte> bytes);

class CallerHandshake {
 public:
  CallerHandshake(const Key& key, Identity identity, std::uint32_t version);
  [[nodiscard]] Bytes hello() const;
  /// What to answer to kChallenge.  \error kCorrupt, kPermission if the listener does not know the key
  Result<Bytes> prove(std::span<const std::byte> challenge);
  /// What a kRefusal says.
  [[nodiscard]] Status read_refusal(std::span<const std::byte> refusal) const;
  [[nodiscard]] Sessions sessions() const;

 private:
  Secrets secrets_;
  Identity identity_;
};

class ListenerHandshake {
 public:
  ListenerHandshake(const Key& key, std::uint32_t version);
  /// What to answer to kHello.  \error kCorrupt, kInvalidArgument if the versions differ
  Result<Bytes> challenge(std::span<const std::byte> hello);
  /// Who has proven the key.  \error kCorrupt, kPermission
  Result<Identity> accept(std::span<const std::byte> proof);
  /// The payload of kRefusal for one of the errors above.
  [[nodiscard]] Bytes refuse(const Status& why) const;
  [[nodiscard]] Sessions sessions() const;

 private:
  Secrets secrets_;
  bool is_challenged_ = false;  // a proof counts only for a nonce of ours,
  bool is_proven_ = false;      // and once
};

}  // namespace weir::net::internal
