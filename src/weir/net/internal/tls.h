#pragma once

// TLS 1.3 on a socket that does not block: both ends prove that they have the key of the file system before anything
// else is read or written.
//
// The pre-shared key of TLS is derived from that key (of clients, or the secret of servers); every connection also agrees on keys of its own by ephemeral
// Diffie-Hellman, so that what was recorded stays secret if the key is lost later.  There are no certificates, no tickets,
// no resumption, no early data, no renegotiation.
//
// The caller names the key that it has, and what it wants to do after the handshake, which the listener allows or not:
//
//   encrypted   everything travels in TLS records
//   plain       bytes travel as they are: for loopback, where the kernel vouches for both ends
//
// OpenSSL is loaded when the first connection needs it.  It reads no configuration file, writes no file descriptor by
// itself, and raises no SIGPIPE.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <weir/base/result.h>
#include <weir/net/net.h>

// OpenSSL's own name for it, so that its headers stay inside tls.cpp.
struct ssl_st;

namespace weir::net::internal {

/// \threadsafety One thread at a time.
class Tls {
 public:
  enum class End { kCaller, kListener };
  enum class Records { kEncrypted, kPlain };

  /// On a connected socket, which must outlive it.  `key`: of a listener, the secret.  `records`: what the caller wants; the most that the listener allows
  /// (kPlain: both).
  /// \error kUnavailable if OpenSSL cannot be loaded
  static Result<std::unique_ptr<Tls>> create(End end, int socket, const Key& key, Records records);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  /// How far something got.
  enum class Progress { kDone, kNeedsRead, kNeedsWrite };

  /// The next steps of the handshake.
  /// \error kPermission if the ends have different keys; kUnavailable if the peer is gone or does not speak TLS
  Result<Progress> handshake();
  /// Once the handshake is done.
  [[nodiscard]] bool is_encrypted() const { return records_ == Records::kEncrypted; }

  /// Once the handshake is done: bytes that both ends of this connection know, and no other connection has.
  /// \error kUnavailable
  Result<Bytes> channel();

  // For encrypted connections.

  /// From now on, reads several records by one system call.  Nothing else may read the socket any more.
  void read_ahead();
  /// \returns how many bytes were read; 0: none are there yet  \error kUnavailable
  Result<std::size_t> read(std::span<std::byte> into);
  /// After read(): nothing more was there.
  [[nodiscard]] bool is_drained() const;
  /// \returns how many bytes were taken; 0: the socket has no room, try again with the same bytes  \error kUnavailable
  Result<std::size_t> write(std::span<const std::byte> bytes);

 private:
  friend struct TlsCallbacks;
  Tls(End end, int socket, Key key, Records records)
      : end_(end), socket_(socket), key_(std::move(key)), records_(records) {}
  [[nodiscard]] Status failure(std::string_view operation, int error) const;

  const End end_;
  const int socket_;
  Key key_;
  Records records_;
  ssl_st* ssl_ = nullptr;
  std::uint64_t written_bytes_ = 0;  // with the present keys
  int socket_error_ = 0;             // of the last system call that failed
  bool is_socket_drained_ = false;   // the last read of it got less than it had room for
};

}  // namespace weir::net::internal
