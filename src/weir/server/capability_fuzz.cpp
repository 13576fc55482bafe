// Any bytes: refused, or just what the key would seal.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <weir/server/internal/capability.h>

using weir::server::internal::CapabilityKey;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const CapabilityKey key = *CapabilityKey::derive(
      {std::vector<std::byte>(32, std::byte{7}), weir::net::Key::Holder::kServers});  // as the seeds were sealed
  const std::span<const std::uint8_t> bytes(data, size);
  const auto capability = key.open(bytes);
  if (capability && !std::ranges::equal(key.seal(*capability), bytes)) std::abort();
  return 0;
}
