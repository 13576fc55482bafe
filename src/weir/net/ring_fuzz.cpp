// A peer that writes anything into the shared memory: positions and bytes.  Reading must end, and stay within the ring.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <weir/net/internal/ring.h>

namespace {

using namespace weir::net::internal;

// Mapped twice in a row, here by hand: what lies beyond is the sanitizer's.
struct Memory {
  std::vector<std::byte> bytes = std::vector<std::byte>(2 * kRingBytes);
  RingControl control;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 10) return 0;
  static Memory memory;
  std::uint64_t written = 0;
  std::memcpy(&written, data, sizeof written);
  std::uint16_t at = 0;
  std::memcpy(&at, data + 8, sizeof at);
  memory.control.written.store(data[9] % 2 == 0 ? written : written % (2 * kRingBytes));
  const std::size_t start = at % kRingBytes;
  for (std::size_t i = 10; i < size; ++i) {
    const std::size_t position = (start + i - 10) % kRingBytes;
    memory.bytes[position] = memory.bytes[position + kRingBytes] = static_cast<std::byte>(data[i]);
  }
  RingReader reader(memory.control, memory.bytes.data());
  unsigned sum = 0;
  for (std::size_t turn = 0;; ++turn) {
    if (turn > kRingBytes) std::abort();  // every record has some bytes, so this would be one without end
    const auto record = reader.next();
    if (!record.is_ok() || !record->has_value()) break;
    for (const std::byte byte : (*record)->bytes) sum += static_cast<unsigned>(byte);
    reader.release();
  }
  return sum == 1 ? 1 : 0;
}
