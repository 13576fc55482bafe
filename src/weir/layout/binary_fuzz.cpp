// Any bytes: refused, or the one encoding of what they mean.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <weir/layout/binary.h>

namespace {

template <typename Value>
void require_canonical(const Value& value, std::span<const std::byte> bytes) {
  const auto again = weir::layout::encode(value);
  if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (const auto partition = weir::layout::decode_partition(bytes); partition.is_ok())
    require_canonical(*partition, bytes);
  if (const auto set = weir::layout::decode_falls(bytes); set.is_ok()) require_canonical(*set, bytes);
  return 0;
}
