#pragma once

// The handshake: both ends prove to each other that they have the key, over fresh random numbers, without sending it.
//
//   caller  ── kHello      "WEIR", version, holder, nonce_c ──────────────────────────> listener
//           <─ kChallenge  version, nonce_s, asks, MAC("listener", nonces, asks) ───────
//           ── kProof      MAC("caller", nonces, claim), claim ────────────────────────>
//           <─ kWelcome  ── or, at any point, ── kRefusal  code, version, text ─────────
//
// `holder` says which key the two prove: the secret of the servers (1) or the key of the clients (0).  A caller is a
// server if it has proven the secret.  `asks` says whether the listener wants a credential of MUNGE (1) or not (0), which
// is then part of the claim.  Its payload is the binding: a MAC over the nonces and what only this connection has
// (Link::channel()).  So it is worthless on every other connection, also to a listener that passes it on.
//
// MAC is HMAC-SHA512-256 with that key (libsodium's crypto_auth), over the version too.  Each direction of the
// connection then has a session number, also a MAC over the nonces, that every frame carries.  What travels is proven,
// not hidden: on networks that others can listen to, use one that encrypts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

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

/// What a caller says of itself.
struct Claim {
  std::string host;
  std::string credential;  ///< Of MUNGE; empty: none.
  bool is_server = false;  ///< Not said, but proven: it has the secret of the servers.
};
/// As a proof carries it.
Bytes encode(const Claim& claim);
/// \error kCorrupt
Result<Claim> decode_claim(std::span<const std::byte> bytes);

/// Whether a listener wants a credential of MUNGE.
enum class Asks : std::uint8_t { kNothing, kCredential };

class CallerHandshake {
 public:
  /// Makes a credential with this payload.
  using MakeCredential = std::function<Result<std::string>(std::span<const std::byte> payload)>;

  /// `host`: of this process.
  CallerHandshake(const Key& key, std::string host, std::uint32_t version);
  [[nodiscard]] Bytes hello() const;
  /// What to answer to kChallenge on a link with this channel.  \error kCorrupt; kPermission if the listener does not
  /// know the key, or wants a credential that cannot be made
  Result<Bytes> prove(std::span<const std::byte> challenge, std::span<const std::byte> channel = {},
                      const MakeCredential& make_credential = {});
  /// What a kRefusal says.
  [[nodiscard]] Status read_refusal(std::span<const std::byte> refusal) const;
  [[nodiscard]] Sessions sessions() const;

 private:
  Secrets secrets_;
  std::string host_;
};

class ListenerHandshake {
 public:
  /// `secret`: of the servers.
  ListenerHandshake(const Key& secret, std::uint32_t version, Asks asks = Asks::kNothing);
  /// What to answer to kHello.  \error kCorrupt, kInvalidArgument if the versions differ
  Result<Bytes> challenge(std::span<const std::byte> hello);
  /// What the caller claims, which has proven the key.  \error kCorrupt, kPermission
  Result<Claim> accept(std::span<const std::byte> proof);
  /// The payload that a credential of the caller must have, on a link with this channel.
  [[nodiscard]] Bytes binding(std::span<const std::byte> channel) const;
  /// The payload of kRefusal for one of the errors above.
  [[nodiscard]] Bytes refuse(const Status& why) const;
  [[nodiscard]] Sessions sessions() const;

 private:
  Asks asks_;
  Secrets secrets_;             // with the secret, until the hello has said which key is proven
  bool is_challenged_ = false;  // a proof counts only for a nonce of ours,
  bool is_proven_ = false;      // and once
};

}  // namespace weir::net::internal
