// Any bytes: refused, or a message whose encoding means the same.

#include <cstdint>
#include <cstdlib>
#include <span>

#include <weir/wire/wire.h>

namespace {

// Bytes from others may be arranged otherwise than ours, so compare what we make of them the first and the second time.
template <typename Decode>
void require_stable(Decode decode, std::span<const std::byte> bytes) {
  const auto first = decode(bytes);
  if (!first.is_ok()) return;
  const weir::wire::Bytes encoded = encode(*first);
  const auto second = decode(encoded);
  if (!second.is_ok() || encode(*second) != encoded) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  require_stable(weir::wire::decode_request, bytes);
  require_stable(weir::wire::decode_reply, bytes);
  return 0;
}
