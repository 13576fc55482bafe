#include <weir/net/internal/handshake.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <sodium.h>

#include <weir/base/text.h>
#include <weir/net/internal/bytes.h>
#include <weir/net/internal/errors.h>
#include <weir/net/internal/frame.h>

namespace weir::net::internal {

namespace {

constexpr std::string_view kMagic = "WEIR";
constexpr std::size_t kMostHostBytes = 255;
constexpr std::size_t kMostCredentialBytes = 4096;

using Mac = std::array<std::byte, crypto_auth_BYTES>;
static_assert(crypto_auth_KEYBYTES == 32);

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

Nonce random_nonce() {
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

/// What is proven: `role` keeps the proofs of the two ends, and the session numbers, apart.
Mac mac(const Secrets& secrets, std::string_view role, std::span<const std::byte> more = {}) {
  Bytes message;
  append(message, static_cast<std::uint32_t>(role.size()));
  append(message, bytes_of(role));
  append(message, secrets.version);
  append(message, secrets.caller_nonce);
  append(message, secrets.listener_nonce);
  append(message, more);
  Mac result;
  crypto_auth(reinterpret_cast<unsigned char*>(result.data()), raw(message.data()), message.size(),
              raw(secrets.key.bytes.data()));
  return result;
}

bool is_equal(const Mac& mac, std::span<const std::byte> claimed) {
  return claimed.size() == mac.size() && sodium_memcmp(mac.data(), claimed.data(), mac.size()) == 0;
}

std::uint64_t session(const Secrets& secrets, std::string_view role) {
  const Mac bytes = mac(secrets, role);
  return Reader(bytes).number<std::uint64_t>();
}

Sessions sessions_of(const Secrets& secrets) {
  return {session(secrets, "to listener"), session(secrets, "to caller")};
}

Status other_version(std::uint32_t caller, std::uint32_t listener) {
  return invalid_argument(concat("the caller speaks version ", caller, " of the protocol, the server version ",
                                 listener, ": use the same release of Weir at both ends"));
}

}  // namespace

Bytes encode(const Claim& claim) {
  Bytes out;
  const std::string_view host = std::string_view(claim.host).substr(0, kMostHostBytes);
  append(out, static_cast<std::uint8_t>(host.size()));
  append(out, bytes_of(host));
  append(out, bytes_of(claim.credential));
  return out;
}

Result<Claim> decode_claim(std::span<const std::byte> bytes) {
  const auto text = [](std::span<const std::byte> from) {
    return std::string(reinterpret_cast<const char*>(from.data()), from.size());
  };
  Reader reader(bytes);
  const auto host_bytes = reader.number<std::uint8_t>();
  Claim claim;
  claim.host = text(reader.bytes(host_bytes));
  if (!reader.is_ok() || reader.rest().size() > kMostCredentialBytes)
    return corrupt("handshake: claim has the wrong length");
  claim.credential = text(reader.rest());
  // It becomes a C string.
  if (claim.credential.find('\0') != std::string::npos) return corrupt("handshake: a zero in a credential");
  return claim;
}

CallerHandshake::CallerHandshake(const Key& key, std::string host, std::uint32_t version)
    : secrets_{.key = key, .version = version, .caller_nonce = random_nonce()}, host_(std::move(host)) {}

Bytes CallerHandshake::hello() const {
  Bytes out;
  append(out, bytes_of(kMagic));
  append(out, secrets_.version);
  append(out, static_cast<std::uint8_t>(secrets_.key.holder));
  append(out, secrets_.caller_nonce);
  return out;
}

Result<Bytes> CallerHandshake::prove(std::span<const std::byte> challenge, std::span<const std::byte> channel,
                                     const MakeCredential& make_credential) {
  Reader reader(challenge);
  const auto version = reader.number<std::uint32_t>();
  const auto nonce = reader.bytes(kNonceBytes);
  const auto asks = reader.bytes(1);
  const auto claimed = reader.bytes(crypto_auth_BYTES);
  if (!reader.is_finished()) return corrupt(concat("handshake: challenge of ", challenge.size(), " bytes"));
  if (version != secrets_.version) return other_version(secrets_.version, version);
  std::copy(nonce.begin(), nonce.end(), secrets_.listener_nonce.begin());
  if (!is_equal(mac(secrets_, "listener", asks), claimed))
    return Status(ErrorCode::kPermission, "the server has another key than this caller");
  Claim claim{.host = host_, .credential = {}};
  if (static_cast<Asks>(asks[0]) == Asks::kCredential) {
    Result<std::string> credential = make_credential ? make_credential(mac(secrets_, "munge", channel))
                                                     : Status(ErrorCode::kUnavailable, "this caller does not use it");
    if (!credential.is_ok()) {
      return Status(ErrorCode::kPermission,
                    concat("the server identifies callers from other hosts by MUNGE, which does not work here: ",
                           credential.status().message()));
    }
    claim.credential = std::move(*credential);
  }
  const Bytes said = encode(claim);
  Bytes out;
  append(out, mac(secrets_, "caller", said));
  append(out, said);
  return out;
}

Status CallerHandshake::read_refusal(std::span<const std::byte> refusal) const {
  Reader reader(refusal);
  const auto code = reader.number<std::uint8_t>();
  const auto version = reader.number<std::uint32_t>();
  if (reader.is_ok() && version != secrets_.version) return other_version(secrets_.version, version);
  const std::string text = printable(reader.rest());
  const bool is_permission = code == static_cast<std::uint8_t>(ErrorCode::kPermission);
  return {is_permission ? ErrorCode::kPermission : ErrorCode::kUnavailable, concat("refused: ", text)};
}

Sessions CallerHandshake::sessions() const { return sessions_of(secrets_); }

ListenerHandshake::ListenerHandshake(const Key& secret, std::uint32_t version, Asks asks)
    : asks_(asks), secrets_{.key = secret, .version = version} {}

Result<Bytes> ListenerHandshake::challenge(std::span<const std::byte> hello) {
  Reader reader(hello);
  const auto magic = reader.bytes(kMagic.size());
  const auto version = reader.number<std::uint32_t>();
  const auto expected = bytes_of(kMagic);
  if (!reader.is_ok() || !std::equal(magic.begin(), magic.end(), expected.begin(), expected.end()))
    return corrupt("handshake: not a caller of Weir");
  // What comes after the version may differ between versions.
  if (version != secrets_.version) return other_version(version, secrets_.version);
  const auto holder = reader.number<std::uint8_t>();
  const auto nonce = reader.bytes(kNonceBytes);
  if (!reader.is_finished() || holder > static_cast<std::uint8_t>(Key::Holder::kServers) || is_challenged_)
    return corrupt("handshake: wrong length, unknown key, or a second hello");
  if (static_cast<Key::Holder>(holder) == Key::Holder::kClients) secrets_.key = secrets_.key.for_clients();
  std::copy(nonce.begin(), nonce.end(), secrets_.caller_nonce.begin());
  secrets_.listener_nonce = random_nonce();
  is_challenged_ = true;
  Bytes out;
  append(out, secrets_.version);
  append(out, secrets_.listener_nonce);
  // Servers need none.
  const bool is_server = secrets_.key.holder == Key::Holder::kServers;
  const std::array<std::byte, 1> asks{static_cast<std::byte>(is_server ? Asks::kNothing : asks_)};
  append(out, asks);
  append(out, mac(secrets_, "listener", asks));
  return out;
}

Result<Claim> ListenerHandshake::accept(std::span<const std::byte> proof) {
  if (!is_challenged_ || is_proven_ || proof.size() < crypto_auth_BYTES)
    return corrupt("handshake: not a proof, or out of turn");
  const auto claimed = proof.first(crypto_auth_BYTES);
  const auto said = proof.subspan(crypto_auth_BYTES);
  if (!is_equal(mac(secrets_, "caller", said), claimed))
    return Status(ErrorCode::kPermission, "the caller has another key than this server");
  is_proven_ = true;
  WEIR_TRY(Claim claim, decode_claim(said));
  claim.is_server = secrets_.key.holder == Key::Holder::kServers;
  return claim;
}

Bytes ListenerHandshake::binding(std::span<const std::byte> channel) const {
  const Mac bytes = mac(secrets_, "munge", channel);
  return {bytes.begin(), bytes.end()};
}

Bytes ListenerHandshake::refuse(const Status& why) const {
  Bytes out;
  append(out, static_cast<std::uint8_t>(why.code()));
  append(out, secrets_.version);
  append(out, bytes_of(std::string_view(why.message()).substr(0, kMostReasonBytes)));
  return out;
}

Sessions ListenerHandshake::sessions() const { return sessions_of(secrets_); }

}  // namespace weir::net::internal
