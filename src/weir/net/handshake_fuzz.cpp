// Input: which message of the handshake it pretends to be, then the message.  Nobody without the key gets in, and
// nothing that is said to a user can confuse a terminal.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <weir/net/internal/handshake.h>

namespace {

using weir::Status;
using weir::net::Bytes;
using weir::net::Key;
using weir::net::internal::CallerHandshake;
using weir::net::internal::ListenerHandshake;

constexpr std::uint32_t kVersion = 1;

void require(bool condition) {
  if (!condition) std::abort();
}

void say_hello(const Key& key, std::span<const std::byte> hello) {
  ListenerHandshake listener(key, kVersion);
  if (!listener.challenge(hello).is_ok()) return;
  require(hello.size() == 41);
  require(!listener.challenge(hello).is_ok());
}

void challenge(const Key& key, std::span<const std::byte> message) {
  CallerHandshake caller(key, "host", kVersion);
  require(!caller.prove(message).is_ok());
}

void prove(const Key& key, std::span<const std::byte> proof) {
  ListenerHandshake listener(key, kVersion);
  require(!listener.accept(proof).is_ok());
  require(listener.challenge(CallerHandshake(key, "host", kVersion).hello()).is_ok());
  require(!listener.accept(proof).is_ok());
}

void refuse(const Key& key, std::span<const std::byte> refusal) {
  const Status status = CallerHandshake(key, "host", kVersion).read_refusal(refusal);
  require(!status.is_ok() && status.message().size() < 1000);
  require(std::all_of(status.message().begin(), status.message().end(), [](char c) { return c >= ' ' && c <= '~'; }));
}

void claim(std::span<const std::byte> bytes) {
  const auto claim = weir::net::internal::decode_claim(bytes);
  if (!claim.is_ok()) return;
  const Bytes again = weir::net::internal::encode(*claim);
  require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Key key = Key::random();
  const auto message = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0]) {
    case 'h': say_hello(key, message); break;
    case 'c': challenge(key, message); break;
    case 'p': prove(key, message); break;
    case 'r': refuse(key, message); break;
    default: claim(message);
  }
  return 0;
}
