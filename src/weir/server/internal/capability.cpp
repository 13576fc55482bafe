#include <weir/server/internal/capability.h>

#include <sodium.h>

#include <cstring>
#include <type_traits>

namespace weir::server::internal {

namespace {

constexpr std::uint8_t kCapabilityVersion = 1;
constexpr std::size_t kSealedBytes = kCapabilityBytes - crypto_auth_BYTES;
static_assert(crypto_auth_KEYBYTES == 32);

template <typename Number>
void put_number(std::vector<std::uint8_t>& bytes, Number number) {
  auto left = static_cast<std::make_unsigned_t<Number>>(number);
  for (std::size_t i = 0; i < sizeof left; ++i) bytes.push_back(static_cast<std::uint8_t>(left >> (8 * i)));
}

template <typename Number>
Number take_number(std::span<const std::uint8_t>& bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) number |= std::uint64_t{bytes[i]} << (8 * i);
  bytes = bytes.subspan(sizeof(Number));
  return static_cast<Number>(number);
}

}  // namespace

Result<CapabilityKey> CapabilityKey::derive(const net::Key& secret) {
  if (secret.holder != net::Key::Holder::kServers)
    return invalid_argument("capabilities: that is not a servers' secret");
  const std::vector<std::byte> derived = secret.derive(net::Key::Purpose::kCapabilities);
  Bytes key{};
  if (derived.size() != key.size()) return invalid_argument("capabilities: the servers' secret is not one");
  std::memcpy(key.data(), derived.data(), key.size());
  return CapabilityKey(key);
}

std::vector<std::uint8_t> CapabilityKey::seal(const Capability& capability) const {
  std::vector<std::uint8_t> bytes;
  bytes.reserve(kCapabilityBytes);
  put_number(bytes, kCapabilityVersion);
  put_number(bytes, capability.rights);
  put_number(bytes, std::uint16_t{0});
  put_number(bytes, capability.uid);
  put_number(bytes, capability.file);
  put_number(bytes, capability.data);
  put_number(bytes, capability.source);
  put_number(bytes, capability.expires_ns);
  bytes.resize(kCapabilityBytes);
  crypto_auth(bytes.data() + kSealedBytes, bytes.data(), kSealedBytes, bytes_.data());
  return bytes;
}

std::optional<Capability> CapabilityKey::open(std::span<const std::uint8_t> bytes) const {
  if (bytes.size() != kCapabilityBytes || bytes[0] != kCapabilityVersion) return std::nullopt;
  if (crypto_auth_verify(bytes.data() + kSealedBytes, bytes.data(), kSealedBytes, bytes_.data()) != 0)
    return std::nullopt;
  Capability capability;
  bytes = bytes.subspan(sizeof kCapabilityVersion);
  capability.rights = take_number<std::uint8_t>(bytes);
  bytes = bytes.subspan(sizeof(std::uint16_t));
  capability.uid = take_number<std::uint32_t>(bytes);
  capability.file = take_number<std::uint64_t>(bytes);
  capability.data = take_number<std::uint64_t>(bytes);
  capability.source = take_number<std::uint64_t>(bytes);
  capability.expires_ns = take_number<std::int64_t>(bytes);
  return capability;
}

}  // namespace weir::server::internal
