#pragma once

// Links between hosts: TCP sockets on which both ends have proven the key (tls.h) before a frame is read or sent.
//
// A frame on the stream is the length of its payload (4 bytes, little endian), 4 zeros, its header (frame.h), and the
// payload.  Bodies travel in long pieces, sent straight from the memory of the program, and received straight into the
// place that they are meant for, which is asked for before each read: a call that is over has none, and its bytes are
// thrown away.  The head of a reply leaves with the first piece of its body.
//
//   accepted ── TLS ──> established ── the handshake of handshake.h, then calls
//
// A stranger costs a socket and OpenSSL's state, but no buffer of ours, until TLS is done.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <sys/socket.h>

#include <weir/base/descriptor.h>
#include <weir/net/internal/acceptor.h>
#include <weir/net/internal/link.h>
#include <weir/net/internal/socket_address.h>

namespace weir::net::internal {

class SocketLink;

/// Which connections are encrypted; all prove the key.  A listener decides what it allows, a caller what it asks for.
enum class Encryption { kBeyondLoopback, kAlways, kNever };
/// As WEIR_ENCRYPTION says: auto, always or never.  \error kInvalidArgument
Result<Encryption> encryption_by(const runtime::Settings& settings);

class SocketWorker : public Worker {
 public:
  /// Where the payload of a kBody frame belongs, from its first byte on; empty: nowhere.  on_frame is told of the bytes
  /// when they are there.
  using Place = std::function<std::span<std::byte>(const Frame& frame, const Link* from)>;

  static Result<std::unique_ptr<SocketWorker>> create(OnFrame on_frame, Place place, const runtime::Runtime& runtime);
  ~SocketWorker() override;

  /// From now on, callers get a link, which is given to `on_link`: false if it does not want it.  \returns the address,
  /// with the port if 0 was asked for  \error kIoError
  Result<SocketAddress> listen(const SocketAddress& address, const Key& key,
                               std::function<bool(const std::shared_ptr<Link>&)> on_link);
  void stop_listening() { acceptor_.stop(); }
  /// Begins to connect.  \error kUnavailable
  Result<std::shared_ptr<Link>> connect(const SocketAddress& address, const Key& key);

  bool take_in() override;
  Clock::duration arm() override;
  [[nodiscard]] int event_fd() const override { return events_.get(); }
  void flush(Deadline deadline) override;
  void finish_closing(Deadline) override {}

 private:
  friend class SocketLink;
  SocketWorker(OnFrame on_frame, Place place, const runtime::Clock& clock, Encryption encryption);
  void collect() override;
  bool take_in_from_latest();
  void note(SocketLink& link);
  void accept_some();
  std::shared_ptr<SocketLink> add(Descriptor socket);

  const runtime::Clock& clock_;
  const Encryption encryption_;
  Place place_;
  Descriptor events_;
  Acceptor acceptor_;
  Key listener_key_;
  std::function<bool(const std::shared_ptr<Link>&)> on_link_;
  std::vector<std::shared_ptr<SocketLink>> links_;
  std::vector<std::shared_ptr<SocketLink>> unfinished_;  // have more to read than was read at once
  bool has_closed_ = false;                              // some of `links_` are closed
  SocketLink* latest_ = nullptr;                         // frames came from it last; it is likely to go on
  int guesses_left_ = 0;                                 // that it does
  bool must_ask_ = false;                                // this thread slept, or is about to
  Bytes record_;                                         // put together for one TLS record
  Bytes discarded_;                                      // bytes of calls that are over
};

}  // namespace weir::net::internal
