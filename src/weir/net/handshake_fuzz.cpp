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
using weir::net::Identity;
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
  require(hello.size() == 40);
  require(!listener.challenge(hello).is_ok());
}

void challenge(const Key& key, std::span<const std::byte> message) {
  CallerHandshake caller(key, Identity{}, kVersion);
  require(!caller.prove(message).is_ok());
}

void prove(const Key& key, std::span<const std::byte> proof) {
  ListenerHandshake listener(key, kVersion);
  require(!listener.accept(proof).is_ok());
  require(listener.challenge(CallerHandshake(key, Identity{}, kVersion).hello()).is_ok());
  require(!listener.accept(proof).is_ok());
}

void refuse(const Key& key, std::span<const std::byte> refusal) {
  const Status status = CallerHandshake(key, Identity{}, kVersion).read_refusal(refusal);
  require(!status.is_ok() && status.message().size() < 1000);
  require(std::all_of(status.message().begin(), status.message().end(), [](char c) { return c >= ' ' && c <= '~'; }));
}

void identify(std::span<const std::byte> bytes) {
  const auto identity = weir::net::internal::decode_identity(bytes);
  if (!identity.is_ok()) return;
  const Bytes again = weir::net::internal::encode(*identity);
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
    default: identify(message);
  }
  return 0;
}
