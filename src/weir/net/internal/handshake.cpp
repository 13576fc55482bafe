#include <weir/net/internal/handshake.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <sodium.h>

#include <weir/base/text.h>
#include <weir/net/internal/bytes.h>

namespace weir::net::internal {

namespace {

constexpr std::string_view kMagic = "WEIR";
constexpr std::size_t kMostGroups = 1024;
constexpr std::size_t kMostHostBytes = 255;
constexpr std::size_t kMostRefusalBytes = 400;

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

Bytes encode(const Identity& identity) {
  Bytes out;
  append(out, identity.uid);
  append(out, identity.gid);
  // Fewer groups give fewer rights, never more.
  const std::size_t groups = std::min(identity.groups.size(), kMostGroups);
  append(out, static_cast<std::uint32_t>(groups));
  for (std::size_t i = 0; i < groups; ++i) append(out, identity.groups[i]);
  append(out, bytes_of(std::string_view(identity.host).substr(0, kMostHostBytes)));
  return out;
}

Result<Identity> decode_identity(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Identity identity;
  identity.uid = reader.number<std::uint32_t>();
  identity.gid = reader.number<std::uint32_t>();
  const auto groups = reader.number<std::uint32_t>();
  if (groups > kMostGroups) return corrupt(concat("handshake: ", groups, " groups; at most ", kMostGroups));
  for (std::uint32_t i = 0; i < groups; ++i) identity.groups.push_back(reader.number<std::uint32_t>());
  if (!reader.is_ok() || reader.rest().size() > kMostHostBytes)
    return corrupt("handshake: identity has the wrong length");
  identity.host.assign(reinterpret_cast<const char*>(reader.rest().data()), reader.rest().size());
  return identity;
}

CallerHandshake::CallerHandshake(const Key& key, Identity identity, std::uint32_t version)
    : secrets_{.key = key, .version = version, .caller_nonce = random_nonce()}, identity_(std::move(identity)) {}

Bytes CallerHandshake::hello() const {
  Bytes out;
  append(out, bytes_of(kMagic));
  append(out, secrets_.version);
  append(out, secrets_.caller_nonce);
  return out;
}

Result<Bytes> CallerHandshake::prove(std::span<const std::byte> challenge) {
  Reader reader(challenge);
  const auto version = reader.number<std::uint32_t>();
  const auto nonce = reader.bytes(kNonceBytes);
  const auto claimed = reader.bytes(crypto_auth_BYTES);
  if (!reader.is_finished()) return corrupt(concat("handshake: challenge of ", challenge.size(), " bytes"));
  if (version != secrets_.version) return other_version(secrets_.version, version);
  std::copy(nonce.begin(), nonce.end(), secrets_.listener_nonce.begin());
  if (!is_equal(mac(secrets_, "listener"), claimed))
    return Status(ErrorCode::kPermission, "the server has another key than this caller");
  const Bytes identity = encode(identity_);
  Bytes out;
  append(out, mac(secrets_, "caller", identity));
  append(out, identity);
  return out;
}

Status CallerHandshake::read_refusal(std::span<const std::byte> refusal) const {
  Reader reader(refusal);
  const auto code = reader.number<std::uint8_t>();
  const auto version = reader.number<std::uint32_t>();
  if (reader.is_ok() && version != secrets_.version) return other_version(secrets_.version, version);
  std::string text(reinterpret_cast<const char*>(reader.rest().data()),
                   std::min(reader.rest().size(), kMostRefusalBytes));
  for (char& character : text) {
    if (character < ' ' || character > '~') character = '?';  // it may end in somebody's terminal
  }
  const bool is_permission = code == static_cast<std::uint8_t>(ErrorCode::kPermission);
  return {is_permission ? ErrorCode::kPermission : ErrorCode::kUnavailable, concat("refused: ", text)};
}

Sessions CallerHandshake::sessions() const { return sessions_of(secrets_); }

ListenerHandshake::ListenerHandshake(const Key& key, std::uint32_t version)
    : secrets_{.key = key, .version = version} {}

Result<Bytes> ListenerHandshake::challenge(std::span<const std::byte> hello) {
  Reader reader(hello);
  const auto magic = reader.bytes(kMagic.size());
  const auto version = reader.number<std::uint32_t>();
  const auto expected = bytes_of(kMagic);
  if (!reader.is_ok() || !std::equal(magic.begin(), magic.end(), expected.begin(), expected.end()))
    return corrupt("handshake: not a caller of Weir");
  // What comes after the version may differ between versions.
  if (version != secrets_.version) return other_version(version, secrets_.version);
  const auto nonce = reader.bytes(kNonceBytes);
  if (!reader.is_finished() || is_challenged_) return corrupt("handshake: wrong length, or a second hello");
  std::copy(nonce.begin(), nonce.end(), secrets_.caller_nonce.begin());
  secrets_.listener_nonce = random_nonce();
  is_challenged_ = true;
  Bytes out;
  append(out, secrets_.version);
  append(out, secrets_.listener_nonce);
  append(out, mac(secrets_, "listener"));
  return out;
}

Result<Identity> ListenerHandshake::accept(std::span<const std::byte> proof) {
  if (!is_challenged_ || is_proven_ || proof.size() < crypto_auth_BYTES)
    return corrupt("handshake: not a proof, or out of turn");
  const auto claimed = proof.first(crypto_auth_BYTES);
  const auto identity = proof.subspan(crypto_auth_BYTES);
  if (!is_equal(mac(secrets_, "caller", identity), claimed))
    return Status(ErrorCode::kPermission, "the caller has another key than this server");
  is_proven_ = true;
  return decode_identity(identity);
}

Bytes ListenerHandshake::refuse(const Status& why) const {
  Bytes out;
  append(out, static_cast<std::uint8_t>(why.code()));
  append(out, secrets_.version);
  append(out, bytes_of(std::string_view(why.message()).substr(0, kMostRefusalBytes)));
  return out;
}

Sessions ListenerHandshake::sessions() const { return sessions_of(secrets_); }

}  // namespace weir::net::internal
